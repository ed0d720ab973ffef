//! The forms of throughput, fitted to grids that are known.

use wansan_insight::model::FitError;
use wansan_insight::model::cycle::{Asking, Cycle};
use wansan_insight::model::grid::{Grid, Point};
use wansan_insight::model::judge::judge;
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
    let judged = judge(&grid, Asking::Batch, 350 * 1500).unwrap();
    assert!(judged.fitted.published_rms < 1e-9, "{:?}", judged.fitted);
    assert!(judged.fitted.published_rms < judged.fitted.cycle_rms);
}

/// Grids made by our form are found again, in both ways of asking.
#[test]
fn our_form_is_found_again() {
    for (asking, send1_s, send2_s, waits) in [
        (Asking::Batch, 0.012, 0.018, 0.0),
        (Asking::Batch, 0.020, 0.016, 0.2),
        (Asking::Loop, 0.016, 0.016, 0.0),
    ] {
        let truth = Cycle {
            asking,
            asked_bytes: 524_288.0,
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
        let found = Cycle::fit(grid.points(), asking, 524_288).unwrap();
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
        }
    }
}

/// With noise, many numbers fit the cells that they were fitted to; judged on the others, the form
/// that made the grid wins.
#[test]
fn the_cells_that_were_left_out_tell_which_form_is_better() {
    let truth = Cycle {
        asking: Asking::Batch,
        asked_bytes: 524_288.0,
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
    let judged = judge(&Grid::of(noisy).unwrap(), Asking::Batch, 524_288).unwrap();
    assert_eq!(
        (judged.published_parameters, judged.cycle_parameters),
        (14, 3)
    );
    let foretold = judged.foretold.unwrap();
    assert!(foretold.cells >= 45, "{foretold:?}");
    assert!(foretold.cycle_rms < 0.03, "{foretold:?}");
    assert!(foretold.cycle_rms < foretold.published_rms, "{foretold:?}");
}

#[test]
fn repeats_are_averaged_and_nonsense_is_refused() {
    let point = |d2_ns: u64, bytes_per_s: f64| Point {
        d1_ns: 0,
        d2_ns,
        bytes_per_s,
    };
    let cells = [
        point(0, 10.0),
        point(0, 20.0),
        point(1, 5.0),
        point(2, 5.0),
        point(3, 5.0),
    ];
    let grid = Grid::of(cells).unwrap();
    assert_eq!(grid.points()[0].bytes_per_s, 15.0);
    assert_eq!(
        Grid::of(cells[..2].to_vec()),
        Err(FitError::TooFewCells { cells: 1 })
    );
    let stalled = Grid::of([point(0, 0.0)]).unwrap_err().to_string();
    assert!(stalled.contains("no throughput"), "{stalled}");
    // Faster with delay: no cycle.
    let rising = [point(0, 1.0), point(1, 2.0), point(2, 3.0), point(3, 4.0)];
    assert_eq!(Published::fit(&rising), Err(FitError::NoCycle));
}
