//! One round: a caller with writes in flight, the faults of its kind, and a look at every block.

use std::time::{Duration, Instant};

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use wansan_iscsi::initiator::Transfer;
use wansan_iscsi::scsi::cdb;
use wansan_san::Sessions;
use wansan_trace::Kinds;

use crate::caller::{Caller, check_all, execute};
use crate::kinds::{Kind, Plan, Step};
use crate::model::Model;
use crate::terms::{BLOCKS, REPLACEMENT_TIMEOUT, Terms};
use crate::world::World;

/// The longest that nothing may be acknowledged while the path is there: longer than an initiator
/// tries to come back.
const STALL_LIMIT: Duration = Duration::from_secs(150);

/// What a round that went well amounts to.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Writes that were acknowledged, or commands that were sent.
    pub(crate) done: u64,
    /// Faults that struck.
    pub(crate) faults: u64,
}

/// Runs the round of `kind` that `seed` stands for.
pub(crate) fn run(kind: Kind, seed: u64) -> Result<Outcome, String> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let terms = Terms::draw(&mut random, kind);
    let plan = kind.draw(&mut random, terms.connections, terms.is_multipath);
    let script = format!("{:?}", plan.steps);
    let mut world = World::start(&terms, seed)?;
    let ran = run_in(&mut world, &terms, plan, random, seed);
    ran.map_err(|failure| {
        format!(
            "{failure}\n  with {}\n  {script}\n  the target said: {}",
            terms.in_words(),
            world.log().trim_end()
        )
    })
}

fn run_in(
    world: &mut World,
    terms: &Terms,
    plan: Plan,
    mut random: Pcg64Mcg,
    seed: u64,
) -> Result<Outcome, String> {
    let url = world.url();
    let mut sessions = Sessions::connect(&url, &terms.initiator(&url), Kinds::NONE, 0)
        .map_err(|error| error.to_string())?;
    execute(&mut sessions, cdb::test_unit_ready(), &Transfer::None)?;
    let model = Model::new(seed, BLOCKS);
    let caller_random = Pcg64Mcg::seed_from_u64(random.next_u64());
    let mut caller = Caller::new(sessions, model, caller_random);
    let is_abandoned = plan.is_abandoned;
    let faults = suffer(world, &mut caller, plan)?;
    let done = caller.done;
    if is_abandoned {
        world.restart(Duration::ZERO)?;
    } else {
        come_back(&mut caller, terms.connections)?;
        let mut watch = Watch::new(&caller);
        while !caller.is_idle() {
            caller.turn()?;
            watch.look(&caller)?;
        }
    }
    let model = caller.leave(!is_abandoned);
    let url = world.straight_url()?;
    let other = terms.other_initiator(&url);
    let mut sessions =
        Sessions::connect(&url, &other, Kinds::NONE, 0).map_err(|error| error.to_string())?;
    check_all(&mut sessions, &model)?;
    let _ = sessions.logout();
    Ok(Outcome { done, faults })
}

/// Goes through the plan with a caller that never stops; gives how many faults have struck.
fn suffer(world: &mut World, caller: &mut Caller, plan: Plan) -> Result<u64, String> {
    let mut steps = plan.steps.into_iter().peekable();
    let (mut strikes, mut others) = (0, 0);
    let mut release_at = None;
    let mut wait_until: Option<Instant> = None;
    let mut watch = Watch::new(caller);
    loop {
        let has_settled = world.proxy.struck() >= strikes
            && release_at.is_none()
            && wait_until.is_none_or(|until| until <= Instant::now())
            && !world.is_restarting();
        if steps.peek().is_none() && has_settled && caller.done >= plan.writes {
            world.proxy.release();
            return Ok(strikes + others);
        }
        caller.fill()?;
        caller.turn()?;
        if release_at.is_none() {
            watch.look(caller)?;
        }
        if release_at.is_some_and(|at| at <= Instant::now()) {
            world.proxy.release();
            release_at = None;
            watch = Watch::new(caller);
        }
        let due = |(at, step): &(u64, Step)| {
            caller.done >= *at && (has_settled || matches!(step, Step::Strike(_)))
        };
        match steps.next_if(due) {
            None => {}
            Some((_, Step::Strike(fault))) => {
                world.proxy.strike(fault);
                strikes += 1;
            }
            Some((_, Step::Release)) => world.proxy.release(),
            Some((_, Step::Wait(time))) => wait_until = Some(Instant::now() + time),
            Some((_, Step::Hold(time))) => {
                world.proxy.hold();
                release_at = Some(Instant::now() + time);
                others += 1;
            }
            Some((_, Step::Restart(down))) => {
                world.restart(down)?;
                others += 1;
            }
        }
    }
}

/// Goes on until all `connections` are there and each has been given a command.
fn come_back(caller: &mut Caller, connections: usize) -> Result<(), String> {
    let since = Instant::now();
    // What they had carried when all were there.
    let mut before: Option<Vec<u64>> = None;
    loop {
        caller.fill()?;
        caller.turn()?;
        let (up, commands) = (caller.connections(), caller.commands());
        before = before.filter(|_| up == connections);
        let has_grown = |before: &Vec<u64>| before.iter().zip(&commands).all(|(a, b)| a < b);
        if before.as_ref().is_some_and(has_grown) {
            return Ok(());
        }
        if up == connections {
            before.get_or_insert_with(|| commands.clone());
        }
        if since.elapsed() > REPLACEMENT_TIMEOUT {
            return Err(format!(
                "{up} of {connections} connections are there after the faults, and have had \
                 {commands:?} commands: {}",
                caller.in_words()
            ));
        }
    }
}

/// Notices a caller that gets no further.
struct Watch {
    done: u64,
    since: Instant,
}

impl Watch {
    fn new(caller: &Caller) -> Self {
        Watch {
            done: caller.done,
            since: Instant::now(),
        }
    }

    fn look(&mut self, caller: &Caller) -> Result<(), String> {
        if caller.done != self.done {
            *self = Watch::new(caller);
        }
        if self.since.elapsed() > STALL_LIMIT {
            return Err(format!(
                "nothing was acknowledged for {STALL_LIMIT:?}: {}",
                caller.in_words()
            ));
        }
        Ok(())
    }
}
