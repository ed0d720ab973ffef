use super::*;

/// RFC 3649, Appendix B: w, a(w), b(w). Each row is the first window at which a(w) increases by one.
const APPENDIX_B: [(u32, u32, f64); 73] = [
    (38, 1, 0.50),
    (118, 2, 0.44),
    (221, 3, 0.41),
    (347, 4, 0.38),
    (495, 5, 0.37),
    (663, 6, 0.35),
    (851, 7, 0.34),
    (1058, 8, 0.33),
    (1284, 9, 0.32),
    (1529, 10, 0.31),
    (1793, 11, 0.30),
    (2076, 12, 0.29),
    (2378, 13, 0.28),
    (2699, 14, 0.28),
    (3039, 15, 0.27),
    (3399, 16, 0.27),
    (3778, 17, 0.26),
    (4177, 18, 0.26),
    (4596, 19, 0.25),
    (5036, 20, 0.25),
    (5497, 21, 0.24),
    (5979, 22, 0.24),
    (6483, 23, 0.23),
    (7009, 24, 0.23),
    (7558, 25, 0.22),
    (8130, 26, 0.22),
    (8726, 27, 0.22),
    (9346, 28, 0.21),
    (9991, 29, 0.21),
    (10661, 30, 0.21),
    (11358, 31, 0.20),
    (12082, 32, 0.20),
    (12834, 33, 0.20),
    (13614, 34, 0.19),
    (14424, 35, 0.19),
    (15265, 36, 0.19),
    (16137, 37, 0.19),
    (17042, 38, 0.18),
    (17981, 39, 0.18),
    (18955, 40, 0.18),
    (19965, 41, 0.17),
    (21013, 42, 0.17),
    (22101, 43, 0.17),
    (23230, 44, 0.17),
    (24402, 45, 0.16),
    (25618, 46, 0.16),
    (26881, 47, 0.16),
    (28193, 48, 0.16),
    (29557, 49, 0.15),
    (30975, 50, 0.15),
    (32450, 51, 0.15),
    (33986, 52, 0.15),
    (35586, 53, 0.14),
    (37253, 54, 0.14),
    (38992, 55, 0.14),
    (40808, 56, 0.14),
    (42707, 57, 0.13),
    (44694, 58, 0.13),
    (46776, 59, 0.13),
    (48961, 60, 0.13),
    (51258, 61, 0.13),
    (53677, 62, 0.12),
    (56230, 63, 0.12),
    (58932, 64, 0.12),
    (61799, 65, 0.12),
    (64851, 66, 0.11),
    (68113, 67, 0.11),
    (71617, 68, 0.11),
    (75401, 69, 0.10),
    (79517, 70, 0.10),
    (84035, 71, 0.10),
    (89053, 72, 0.10),
    (94717, 73, 0.09),
];

/// The response function of Appendix B, with rounded coefficients: p(w) = 0.078 / w^1.2, where 0.078 is 1 / 12.8.
fn rounded_loss(window: f64) -> f64 {
    1.0 / (12.8 * window.powf(1.2))
}

#[test]
fn every_row_of_the_appendix_is_what_the_formulas_make() {
    let law = HighSpeed::default();
    for (window, increase_by, decrease_by) in APPENDIX_B {
        let w = f64::from(window);
        let share = law.decrease(w);
        assert_eq!(
            format!("{share:.2}"),
            format!("{decrease_by:.2}"),
            "b({window})"
        );
        // With the rounded response function, exactly as in the appendix.
        let rounded = increase(w, rounded_loss(w), share).max(1.0);
        assert_eq!(
            rounded.floor() as u32,
            increase_by,
            "a({window}) is {rounded}"
        );
        // The unrounded function is up to 2.4 % above it.
        let ratio = law.increase(w) / rounded;
        assert!(
            (1.0..1.025).contains(&ratio),
            "a({window}) is {ratio} of it"
        );
    }
}

#[test]
fn the_two_points_of_the_response_function_are_on_it() {
    let law = HighSpeed::default();
    for (window, loss) in [(38.0, 1e-3), (83_000.0, 1e-7)] {
        assert!((law.response(loss) / window - 1.0).abs() < 1e-9);
        assert!((law.loss(window) / loss - 1.0).abs() < 1e-9);
    }
    // RFC 3649 §5: at 10^-5 the window is 1795 segments, by the rounded form 0.12/p^0.835.
    let rounded = 0.12 / 1e-5_f64.powf(0.835);
    assert!((law.response(1e-5) / rounded - 1.0).abs() < 0.03);
}

#[test]
fn up_to_the_low_window_it_is_reno() {
    let law = HighSpeed::default();
    for window in [1.0, 2.0, 37.0, 38.0] {
        assert_eq!((law.increase(window), law.decrease(window)), (1.0, 0.5));
    }
}

#[test]
fn parameters_that_make_no_law_are_named() {
    let fine = HighSpeed::default();
    let windows = HighSpeed {
        high_window: 38.0,
        ..fine
    };
    let losses = HighSpeed {
        high_loss: 0.01,
        ..fine
    };
    let no_number = HighSpeed {
        low_loss: f64::NAN,
        ..fine
    };
    let decrease = HighSpeed {
        high_decrease: 0.6,
        ..fine
    };
    assert!(matches!(
        windows.check(),
        Err(HighSpeedError::Windows { .. })
    ));
    assert!(matches!(losses.check(), Err(HighSpeedError::Losses { .. })));
    assert!(matches!(
        no_number.check(),
        Err(HighSpeedError::Losses { .. })
    ));
    assert_eq!(decrease.check(), Err(HighSpeedError::Decrease(0.6)));
    let told = HighSpeedError::Decrease(1e300).to_string();
    assert!(told.contains("decrease 1e300 at"), "{told}");
    assert_eq!(fine.check(), Ok(()));
}
