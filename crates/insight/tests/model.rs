//! The forms of throughput, fitted to grids that are known.

use wansan_insight::model::FitError;
use wansan_insight::model::cycle::{Asked, Asking, Cycle, Route};
use wansan_insight::model::grid::{Grid, Point};
use wansan_insight::model::judge::judge;
use wansan_insight::model::known::Known;
use wansan_insight::model::published::Published;

const DELAYS_MS: [u64; 7] = [0, 1, 2, 4, 8, 16, 32];

fn grid(bytes_per_s: impl Fn(f64, f64) -> f64) -> Grid {
    let cells = DELAYS_MS.iter().flat_map(|&d1| {
        let bytes_per_s = &bytes_per_s;
        DELAYS_MS.iter().map(move |&d2| Point {
            d1_ns: d1 * 1_000_000,
            d2_ns: d2 * 1_000_000,
            bytes_per_s: bytes_per_s(d1 as f64 / 1e3, d2 as f64 / 1e3),
        })
    });
    Grid::of(cells).unwrap()
}

/// Eight commands at once, of 64 KiB.
fn asked(asking: Asking) -> Asked {
    Asked {
        asking,
        bytes: 524_288,
        commands: 8,
    }
}

fn close(found: f64, wanted: f64) -> bool {
    (found - wanted).abs() <= 1e-6 * wanted.abs()
}

/// A grid made by the published form itself: 350 packets, T growing with D1, another T beyond the
/// diagonal.
#[test]
fn the_published_form_is_found_again_exactly() {
    let t_s = |d1: f64| 0.017 + 0.3 * d1;
    let t_swapped_s = |d1: f64| 0.030 - 0.1 * d1;
    let grid = grid(|d1, d2| {
        if d1 <= d2 {
            350.0 * 1500.0 / (2.0 * d2 + t_s(d1))
        } else {
            350.0 * 1500.0 / (2.0 * d1 + t_swapped_s(d1))
        }
    });
    let found = Published::fit(grid.points()).unwrap();
    assert!(close(found.window_packets, 350.0), "{found:?}");
    assert_eq!((found.t_s.len(), found.t_swapped_s.len()), (7, 6));
    for (d1_ns, t) in &found.t_s {
        assert!(close(*t, t_s(*d1_ns as f64 / 1e9)), "{found:?}");
    }
    for (d1_ns, t) in &found.t_swapped_s {
        assert!(close(*t, t_swapped_s(*d1_ns as f64 / 1e9)), "{found:?}");
    }
    let judged = judge(&grid, asked(Asking::Batch)).unwrap();
    assert!(judged.fitted.published_rms < 1e-9, "{:?}", judged.fitted);
    assert!(judged.fitted.published_rms < judged.fitted.cycle_rms);
}

/// Grids made by our form are found again, in both ways of asking.
#[test]
fn our_form_is_found_again() {
    for (asking, begins, send1_s, send2_s, waits) in [
        (Asking::Batch, Route::First, 0.012, 0.018, 0.0),
        (Asking::Batch, Route::Second, 0.012, 0.018, 0.0),
        (Asking::Batch, Route::First, 0.020, 0.016, 0.2),
        (Asking::Loop, Route::First, 0.016, 0.016, 0.0),
    ] {
        let truth = Cycle {
            asked: asked(asking),
            begins,
            send1_s,
            send2_s,
            waits,
        };
        let grid = grid(|d1, d2| {
            truth.bytes_per_s(&Point {
                d1_ns: (d1 * 1e9) as u64,
                d2_ns: (d2 * 1e9) as u64,
                bytes_per_s: 0.0,
            })
        });
        let found = Cycle::fit(grid.points(), asked(asking)).unwrap();
        for point in grid.points() {
            let error = found.bytes_per_s(point) / point.bytes_per_s - 1.0;
            assert!(
                error.abs() < 1e-3,
                "{asking:?}: {found:?} at {point:?}: {error}"
            );
        }
        if asking == Asking::Batch {
            assert!((found.send1_s - send1_s).abs() < 1e-4, "{found:?}");
            assert!((found.send2_s - send2_s).abs() < 1e-4, "{found:?}");
            assert_eq!(found.begins, begins);
        }
    }
}

/// With noise, many numbers fit the cells that they were fitted to; judged on the others, the form
/// that made the grid wins.
#[test]
fn the_cells_that_were_left_out_tell_which_form_is_better() {
    let truth = Cycle {
        asked: asked(Asking::Batch),
        begins: Route::Second,
        send1_s: 0.010,
        send2_s: 0.022,
        waits: 0.0,
    };
    let mut state = 7_u64;
    let mut noise = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        1.0 + ((state >> 33) as f64 / f64::from(1_u32 << 31) - 0.5) * 0.06
    };
    let exact = grid(|d1, d2| {
        truth.bytes_per_s(&Point {
            d1_ns: (d1 * 1e9) as u64,
            d2_ns: (d2 * 1e9) as u64,
            bytes_per_s: 0.0,
        })
    });
    let noisy = exact.points().iter().map(|point| Point {
        bytes_per_s: point.bytes_per_s * noise(),
        ..*point
    });
    let judged = judge(&Grid::of(noisy).unwrap(), asked(Asking::Batch)).unwrap();
    assert_eq!(
        (judged.published_parameters, judged.cycle_parameters),
        (14, 4)
    );
    let foretold = judged.foretold.unwrap();
    assert!(foretold.cells >= 45, "{foretold:?}");
    assert!(foretold.cycle_rms < 0.03, "{foretold:?}");
    assert!(foretold.cycle_rms < foretold.published_rms, "{foretold:?}");
}

/// The command that begins a batch waits for none: on a faster route its data are ahead of the others.
#[test]
fn what_goes_ahead_shortens_the_cycle() {
    let cycle = Cycle {
        asked: asked(Asking::Batch),
        begins: Route::Second,
        send1_s: 0.010,
        send2_s: 0.016,
        waits: 0.0,
    };
    let length_ms = |d1_ms: u64, d2_ms: u64| {
        let point = Point {
            d1_ns: d1_ms * 1_000_000,
            d2_ns: d2_ms * 1_000_000,
            bytes_per_s: 0.0,
        };
        (cycle.length_s(&point) * 1e6).round() / 1e3
    };
    assert_eq!(length_ms(0, 0), 16.0);
    assert_eq!(length_ms(2, 8), 8.0 + 8.0 + 16.0);
    // 1 ms ahead; then a quarter of 10 ms, which is all of the command's own time.
    assert_eq!(length_ms(1, 0), 1.0 + 15.0);
    assert_eq!(length_ms(3, 0), 3.0 + 13.5);
    assert_eq!(length_ms(8, 2), 8.0 + 18.0);
}

/// A grid made by our form with these numbers.
fn made_by(truth: Cycle) -> Grid {
    grid(|d1, d2| {
        truth.bytes_per_s(&Point {
            d1_ns: (d1 * 1e9) as u64,
            d2_ns: (d2 * 1e9) as u64,
            bytes_per_s: 0.0,
        })
    })
}

/// Numbers that make a difference to the cells are told with the range that these allow, and the truth
/// is in it.
#[test]
fn what_the_cells_determine_is_told_with_its_range() {
    let truth = Cycle {
        asked: asked(Asking::Batch),
        begins: Route::Second,
        send1_s: 0.012,
        send2_s: 0.018,
        waits: 0.3,
    };
    let grid = made_by(truth);
    let found = Cycle::fit(grid.points(), truth.asked).unwrap();
    let known = Known::of(&found, grid.points());
    assert_eq!((known.begins, known.send_s), (Some(Route::Second), None));
    for (estimate, truth) in [
        (known.send1_s, truth.send1_s),
        (known.send2_s, truth.send2_s),
        (known.waits, truth.waits),
    ] {
        let estimate = estimate.unwrap();
        assert!(estimate.value.is_some(), "{known:?}");
        assert!(
            (estimate.least..=estimate.most).contains(&truth) && estimate.most < 1.1 * truth,
            "{known:?}"
        );
    }
}

/// A loop is bounded by the narrower route: which one that is, and what the other needs, no cell tells;
/// and when no cell is bounded so, there is only a most.
#[test]
fn what_the_cells_do_not_determine_is_not_told() {
    let truth = Cycle {
        asked: asked(Asking::Loop),
        begins: Route::First,
        send1_s: 0.016,
        send2_s: 0.004,
        waits: 0.0,
    };
    let grid = made_by(truth);
    let judged = judge(&grid, truth.asked).unwrap();
    let known = judged.cycle;
    assert_eq!(
        (
            known.begins,
            known.send1_s,
            known.send2_s,
            judged.cycle_parameters
        ),
        (None, None, None, 2)
    );
    let send = known.send_s.unwrap();
    assert!((send.value.unwrap() - 0.016).abs() < 1e-4, "{known:?}");
    let far: Vec<Point> = grid
        .points()
        .iter()
        .filter(|cell| cell.d1_s() + cell.d2_s() > 0.03)
        .copied()
        .collect();
    let known = Known::of(&Cycle::fit(&far, truth.asked).unwrap(), &far);
    let send = known.send_s.unwrap();
    assert!(send.value.is_none() && send.most >= 0.016, "{known:?}");

    // Over equal delays nothing goes ahead, and a faster route could be any faster.
    let equal = Cycle {
        asked: asked(Asking::Batch),
        send1_s: 0.016,
        ..truth
    };
    let equal = Cycle {
        send2_s: 0.002,
        ..equal
    };
    let diagonal: Vec<Point> = made_by(equal)
        .points()
        .iter()
        .filter(|cell| cell.d1_ns == cell.d2_ns)
        .copied()
        .collect();
    let known = Known::of(&Cycle::fit(&diagonal, equal.asked).unwrap(), &diagonal);
    assert_eq!(known.begins, None, "{known:?}");
    let values = [known.send1_s, known.send2_s].map(|send| send.and_then(|send| send.value));
    assert!(values.contains(&None), "{known:?}");
}

/// As many numbers as cells fit anything.
#[test]
fn a_form_needs_more_cells_than_numbers() {
    let square: Vec<Point> = [(0, 0, 9.0), (0, 8, 4.0), (8, 0, 5.0), (8, 8, 3.0)]
        .map(|(d1_ms, d2_ms, bytes_per_s)| Point {
            d1_ns: d1_ms * 1_000_000,
            d2_ns: d2_ms * 1_000_000,
            bytes_per_s,
        })
        .to_vec();
    let too_few = |parameters| FitError::TooFewCells {
        cells: 4,
        parameters,
    };
    assert_eq!(Cycle::fit(&square, asked(Asking::Batch)), Err(too_few(4)));
    assert_eq!(Published::fit(&square), Err(too_few(4)));
    let judged = judge(&Grid::of(square).unwrap(), asked(Asking::Batch));
    let said = judged.unwrap_err().to_string();
    assert!(
        said.contains("4 cells are too few to fit 4 numbers"),
        "{said}"
    );
}

/// One repeat that was disturbed changes nothing, and a disturbed cell without repeats is named.
#[test]
fn a_disturbed_measurement_is_outvoted_or_named() {
    let truth = Cycle {
        asked: asked(Asking::Batch),
        begins: Route::Second,
        send1_s: 0.010,
        send2_s: 0.017,
        waits: 0.0,
    };
    let exact = made_by(truth);
    let with = |slow: &dyn Fn(usize) -> bool, repeats: usize| {
        let repeated = exact.points().iter().flat_map(|cell| {
            (0..repeats).map(move |repeat| {
                let is_slow = (cell.d1_ns, cell.d2_ns) == (2_000_000, 8_000_000) && slow(repeat);
                let part = if is_slow { 0.6 } else { 1.0 };
                Point {
                    bytes_per_s: part * cell.bytes_per_s,
                    ..*cell
                }
            })
        });
        judge(
            &Grid::of(repeated.collect::<Vec<_>>()).unwrap(),
            truth.asked,
        )
        .unwrap()
    };
    let repeated = with(&|repeat| repeat == 1, 3);
    assert!(repeated.fitted.cycle_rms < 1e-3, "{:?}", repeated.fitted);
    let single = with(&|_| true, 1);
    assert!(single.fitted.cycle_rms > 0.05, "{:?}", single.fitted);
    assert!(single.fitted.cycle_median < 0.02, "{:?}", single.fitted);
    let named = |remark: &String| remark.contains("at 2-8 ms, on the same side");
    assert!(single.remarks.iter().any(named), "{:?}", single.remarks);
    assert!(
        !repeated.remarks.iter().any(named),
        "{:?}",
        repeated.remarks
    );
}

#[test]
fn the_median_repeat_counts_and_nonsense_is_refused() {
    let point = |d2_ns: u64, bytes_per_s: f64| Point {
        d1_ns: 0,
        d2_ns,
        bytes_per_s,
    };
    let grid = Grid::of([
        point(0, 10.0),
        point(0, 90.0),
        point(1, 5.0),
        point(0, 20.0),
    ])
    .unwrap();
    assert_eq!(grid.points(), [point(0, 20.0), point(1, 5.0)]);
    let even = Grid::of([point(0, 10.0), point(0, 20.0)]).unwrap();
    assert_eq!(even.points()[0].bytes_per_s, 15.0);
    let stalled = Grid::of([point(0, 0.0)]).unwrap_err().to_string();
    assert!(stalled.contains("no throughput"), "{stalled}");
    // Faster with delay: no cycle.
    let rising = [1.0, 2.0, 3.0, 4.0].map(|faster| point(faster as u64 - 1, faster));
    assert_eq!(Published::fit(&rising), Err(FitError::NoCycle));
}
