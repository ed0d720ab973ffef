//! Responses compared with independent implementations of the hash functions, and values that are not printed.

use super::*;

const SECRET: &[u8] = b"a secret of 16 b";

/// Computed with Python's hashlib from identifier 7, [`SECRET`] and the bytes 0 to 31.
const RESPONSES: [(Algorithm, &str); 4] = [
    (Algorithm::Md5, "0x0d5356c49dba8e0c9d313eb8780c0112"),
    (
        Algorithm::Sha1,
        "0x5dc3beaf3926ccd0f3475593b914c55ba8b2a0b1",
    ),
    (
        Algorithm::Sha256,
        "0x85d39a757d4eb74e67794bd34526148fca48ecd0958709df16865f2da404b217",
    ),
    (
        Algorithm::Sha3_256,
        "0x08b8605ae68cb2bde6918260cec13bc342ea4e607541a3fce9f867a774b554fd",
    ),
];

#[test]
fn responses_are_the_hash_of_identifier_secret_and_challenge() {
    let challenge: Vec<u8> = (0..32).collect();
    let secret = Secret::new(SECRET).unwrap();
    for ((algorithm, expected), number) in RESPONSES.into_iter().zip([5, 6, 7, 8]) {
        let response = algorithm.response(7, &secret, &challenge);
        assert_eq!(hexadecimal(response.bytes()), expected);
        assert!(response.is(&value::binary(expected).unwrap()));
        assert!(!response.is(&response.bytes()[1..]) && !response.is(b""));
        assert_eq!(Algorithm::from_number(number), Some(algorithm));
    }
    assert_eq!(Algorithm::from_number(9), None);
}

#[test]
fn a_secret_does_not_print_itself() {
    let account = Account::new("me", Secret::new(SECRET).unwrap()).unwrap();
    let accounts = TargetAccounts::new(vec![account.clone()], None, Algorithm::ALL.to_vec());
    let printed = format!("{account:?} {accounts:?}");
    let bytes = format!("{SECRET:?}");
    let text = str::from_utf8(SECRET).unwrap();
    assert!(!printed.contains(text) && !printed.contains(bytes.trim_matches(['[', ']'])));
}

#[test]
fn what_9_2_1_forbids_is_no_account() {
    let secret = |bytes: usize| Secret::new(&vec![b'x'; bytes]);
    for bytes in [0, MIN_SECRET_BYTES - 1, MAX_SECRET_BYTES + 1] {
        assert_eq!(secret(bytes), Err(AccountError::SecretLength { bytes }));
    }
    for name in ["", "a\0b", &"n".repeat(256)] {
        let account = Account::new(name, secret(12).unwrap());
        assert_eq!(account, Err(AccountError::Name));
    }
    let account = |name, bytes| Account::new(name, secret(bytes).unwrap()).unwrap();
    let all = Algorithm::ALL.to_vec();
    let same = Some(account("target", 12));
    assert_eq!(
        TargetAccounts::new(vec![account("me", 12)], same.clone(), all.clone()),
        Err(AccountError::SameSecret)
    );
    assert_eq!(
        InitiatorAccounts::new(account("me", 12), same, all.clone()),
        Err(AccountError::SameSecret)
    );
    let twice = vec![account("me", 12), account("me", 13)];
    let name = "me".to_owned();
    assert_eq!(
        TargetAccounts::new(twice, None, all.clone()),
        Err(AccountError::Twice { name })
    );
    assert_eq!(
        TargetAccounts::new(Vec::new(), None, all),
        Err(AccountError::Nobody)
    );
}
