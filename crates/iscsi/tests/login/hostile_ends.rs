//! Random stage bits and text.

use proptest::prelude::*;
use wansan_iscsi::keys::Wanted;
use wansan_iscsi::login::chap::Algorithm;
use wansan_iscsi::login::{
    InitiatorLogin, InitiatorLoginError, Next, Step, TargetLogin, TargetLoginError,
};
use wansan_iscsi::wire::Stage::{
    FullFeaturePhase as Full, OperationalNegotiation as Operational,
    SecurityNegotiation as Security,
};
use wansan_iscsi::wire::{LoginRequest, LoginResponse, Stage};

use super::authentication;
use super::ends::{Registry, names, request, response, settings};

fn stage() -> impl Strategy<Value = Stage> {
    prop_oneof![Just(Security), Just(Operational), Just(Full)]
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..100),
        Just(names().into_bytes()),
        Just(Vec::new()),
        "((AuthMethod|CHAP_[AICNR]|HeaderDigest|InitialR2T|MaxBurstLength|TargetAddress|X-a)=(Yes|No|None|CHAP|Reject|5|512|0x00|a:1)\0){0,4}"
            .prop_map(String::into_bytes),
    ]
}

proptest! {
    /// Random stage bits and text: always an answer, never two ends, never a panic, and no login without the required
    /// authentication.
    #[test]
    fn hostile_initiators_get_an_answer(
        demands_chap in any::<bool>(),
        requests in proptest::collection::vec(
            (stage(), proptest::option::of(stage()), any::<bool>(), 0_u16..3, text()),
            1..12,
        ),
    ) {
        let mut target = TargetLogin::new(Wanted::default());
        let mut registry = if demands_chap {
            authentication::target(true, &Algorithm::ALL)
        } else {
            Registry::default()
        };
        let mut over = false;
        for (csg, nsg, continue_, tsih, data) in requests {
            let request = LoginRequest { continue_, tsih, ..request(csg, nsg) };
            let step = target.handle(&request, &data, &mut registry);
            match &step {
                Step::Failed(reply, error) => {
                    prop_assert!(reply.response.status.class() != 0);
                    prop_assert!(!over || *error == TargetLoginError::InvalidDuringLogin);
                    over = true;
                }
                Step::Done(reply, accepted) => {
                    prop_assert!(!over && !demands_chap && !accepted.initiator_name.is_empty());
                    prop_assert_eq!(reply.response.nsg, Some(Full));
                    over = true;
                }
                Step::Continue(reply) => {
                    prop_assert!(!over);
                    prop_assert!(reply.data.len() <= 8192);
                    prop_assert!(reply.response.nsg != Some(Full));
                }
            }
        }
        prop_assert!(registry.sessions.len() <= usize::from(!demands_chap));
    }

    #[test]
    fn hostile_targets_come_to_an_end(
        responses in proptest::collection::vec(
            (stage(), proptest::option::of(stage()), any::<bool>(), any::<u16>(), text()),
            1..12,
        ),
    ) {
        let mut initiator =
            InitiatorLogin::new(settings(Wanted::default())).expect("sound settings");
        initiator.start();
        let mut over = false;
        for (csg, nsg, continue_, tsih, data) in responses {
            let response = LoginResponse { continue_, tsih, ..response(csg, nsg) };
            match initiator.handle(&response, &data) {
                Next::Send(request) => {
                    prop_assert!(!over && request.data.len() <= 8192);
                }
                Next::Failed(InitiatorLoginError::IsOver) => prop_assert!(over),
                _ => {
                    prop_assert!(!over);
                    over = true;
                }
            }
        }
    }
}
