//! A batch begun and aborted right after its first output, again and again: librdkafka issue 4849, by which such an abort may be
//! fatal to the client. Only a test's own binary comes here; what it plays is the same `transact` with the same `settle`.

use super::KafkaProducer;
use crate::planted::Planted;
use transom_engine::Outcome;
use transom_runtime::{InitError, SealedBatch, Transactor};

/// How often.
const ABORTS: usize = 1_000;
/// How long after the output: before the library has sent anything (it lingers 2 ms), while its partition is being added to the
/// transaction, while the output itself is on its way, and after it was acknowledged.
const PAUSES_MS: [u8; 8] = [0, 2, 3, 4, 5, 6, 8, 15];
/// Attempts to initialise a producer that had to be replaced, each bounded.
const INITIALISATIONS_MAX: u32 = 100;

impl KafkaProducer {
    /// Plays it with the first batch that has an output, then never again.
    pub(super) fn rehearse_aborts(&mut self, sealed: &SealedBatch) {
        if !matches!(self.options.planted, Planted::AbortsAtOnce { .. }) || sealed.outputs.is_empty() {
            return;
        }
        let (mut aborted, mut replaced, mut recycled) = (0_u32, 0_u32, 0_u32);
        for number in 0..ABORTS {
            self.options.planted = Planted::AbortsAtOnce { pause_ms: PAUSES_MS[number % PAUSES_MS.len()] };
            match self.transact_batch(sealed) {
                Outcome::Aborted { .. } => aborted += 1,
                Outcome::Replace { why, fenced } => {
                    tracing::info!(reason = %why, fenced, "an abort at once replaced the producer");
                    replaced += 1;
                    self.initialise_for_rehearsal();
                }
                other => {
                    tracing::error!(outcome = ?other, "an abort at once ended otherwise");
                    break;
                }
            }
            recycled += u32::from(self.take_recycled().is_some());
        }
        self.options.planted = Planted::Nothing;
        tracing::info!(aborted, replaced, recycled, "aborts at once are over");
    }

    fn initialise_for_rehearsal(&mut self) {
        for _ in 0..INITIALISATIONS_MAX {
            match self.initialise() {
                Ok(()) => return,
                Err(InitError::NotYet(why)) => tracing::info!(reason = %why, "not initialised yet"),
                Err(other) => return tracing::error!(reason = ?other, "never initialised"),
            }
        }
    }
}
