//! The rules of a relay's transparent listeners across reloads.

use std::sync::Weak;

use crate::relay::Relay;
use crate::rules::{Installed, Rules, RulesError};

/// Installed rules. They are removed when this is dropped.
#[derive(Debug, Default)]
pub struct Standing(Vec<Stand>);

/// The rules of one listener's address.
#[derive(Debug)]
struct Stand {
    installed: Installed,
    /// Listeners of this address, as long as they or their flows exist.
    presences: Vec<Weak<()>>,
}

impl Standing {
    /// Installs these rules, which are those of the listeners of `relay`. The rules of a removed listener accept no new
    /// connections, but keep its flows; a later change removes them, after the flows have ended. Not this change: a
    /// peer's retransmission after the last acknowledgement was lost would bypass the connections that wait for it.
    ///
    /// # Errors
    /// The first [`RulesError`]. The other rules are in force all the same; where one failed, the previous rule stays.
    pub fn change(&mut self, relay: &Relay, needed: &[Rules]) -> Result<(), RulesError> {
        self.0.retain_mut(|stand| {
            stand.presences.retain(|it| it.strong_count() > 0);
            stand.installed.rules().takes() || !stand.presences.is_empty()
        });
        let mut outcome = Ok(());
        for rules in needed {
            outcome = outcome.and(self.put(relay, rules));
        }
        for stand in &mut self.0 {
            let rules = stand.installed.rules();
            if rules.takes() && !needed.iter().any(|other| other.is_of_same(rules)) {
                let kept = rules.without_new();
                outcome = outcome.and(stand.installed.replace(kept));
            }
        }
        outcome
    }

    fn put(&mut self, relay: &Relay, rules: &Rules) -> Result<(), RulesError> {
        let is_it = |stand: &&mut Stand| stand.installed.rules().is_of_same(rules);
        let presence = relay.presence(rules.listen());
        if let Some(stand) = self.0.iter_mut().find(is_it) {
            let is_known = |new: &Weak<()>| stand.presences.iter().any(|known| known.ptr_eq(new));
            let news = presence.filter(|new| !is_known(new));
            stand.presences.extend(news);
            if stand.installed.rules() != rules {
                stand.installed.replace(rules.clone())?;
            }
        } else {
            self.0.push(Stand {
                installed: rules.install()?,
                presences: presence.into_iter().collect(),
            });
        }
        Ok(())
    }
}
