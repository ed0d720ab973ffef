//! The configuration of a router's tunnels.

use std::fmt;
use std::io;
use std::net::SocketAddrV4;

use boringtun::x25519::{PublicKey, StaticSecret};
use ipnet::Ipv4Net;
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

/// The tunnels that end at one router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Its tunnels.
    pub tunnels: Vec<TunnelConfig>,
}

/// One end of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunnelConfig {
    /// Name of the TUN device to create, up to 15 bytes.
    pub device: String,
    /// This end's outer address and port.
    pub local: SocketAddrV4,
    /// The other end's outer address and port.
    pub peer: SocketAddrV4,
    /// This end's private key.
    pub private_key: Key,
    /// The other end's public key.
    pub peer_public_key: Key,
    /// The key shared by both ends and mixed into the handshake.
    pub preshared_key: Key,
    /// Permitted source addresses of packets from the tunnel, and destinations of packets into it: the other end's
    /// subnets ("cryptokey routing").
    pub allowed: Vec<Ipv4Net>,
    /// Whether this end initiates the handshake.
    pub initiates: bool,
}

/// A Curve25519 key or a pre-shared key. Its bytes are never shown, and are wiped from memory on drop.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key([u8; 32]);

impl Key {
    /// A new private or pre-shared key from the kernel's random number generator.
    ///
    /// # Errors
    /// When the kernel provides no random numbers.
    pub fn random() -> io::Result<Key> {
        let mut key = Key([0; 32]);
        let mut filled = 0;
        while filled < key.0.len() {
            filled += getrandom(&mut key.0[filled..], GetRandomFlags::empty())?;
        }
        Ok(key)
    }

    /// The public key of a private key.
    #[must_use]
    pub fn public(&self) -> Key {
        Key(PublicKey::from(&self.secret()).to_bytes())
    }

    pub(crate) fn secret(&self) -> StaticSecret {
        StaticSecret::from(self.0)
    }

    pub(crate) fn as_public(&self) -> PublicKey {
        PublicKey::from(self.0)
    }

    pub(crate) const fn bytes(&self) -> [u8; 32] {
        self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_is_the_same_on_the_other_side_and_shows_no_key() {
        let private_key = Key::random().unwrap();
        let digits = format!("{:?}", private_key.bytes());
        let config = Config {
            tunnels: vec![TunnelConfig {
                device: "vpn0".to_owned(),
                local: "10.84.0.2:51820".parse().unwrap(),
                peer: "10.84.0.3:51820".parse().unwrap(),
                peer_public_key: Key::random().unwrap().public(),
                preshared_key: Key::random().unwrap(),
                private_key,
                allowed: vec!["10.82.0.0/24".parse().unwrap()],
                initiates: true,
            }],
        };
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<Config>(&text).unwrap(), config);
        assert!(!format!("{config:?}").contains(digits.trim_matches(['[', ']'])));
    }

    #[test]
    fn both_ends_of_a_tunnel_come_to_the_same_secret() {
        let (near, far) = (Key::random().unwrap(), Key::random().unwrap());
        assert_ne!(near, far);
        let secret = |own: &Key, other: &Key| {
            let shared = own.secret().diffie_hellman(&other.public().as_public());
            shared.to_bytes()
        };
        assert_eq!(secret(&near, &far), secret(&far, &near));
    }
}
