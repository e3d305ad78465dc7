//! The planted mistakes: each alters one rule of the engine in a copy of its source.

/// One replacement of text. The text must be there exactly once: a rule that is rewritten takes its mistake along or fails.
/// `PLANTED` stands for the question whether this mistake is in force.
pub(super) struct Edit {
    pub(super) file: &'static str,
    pub(super) find: &'static str,
    pub(super) put: &'static str,
}

/// A mistake in the engine.
pub(super) struct Mistake {
    pub(super) name: &'static str,
    pub(super) edits: &'static [Edit],
}

const WORKER: &str = "src/engine/worker/mod.rs";
const ASSIGNMENT: &str = "src/engine/worker/assignment.rs";
const OUTCOME: &str = "src/engine/worker/outcome.rs";
const HUNT: &str = "src/engine/hunt.rs";
const BATCH: &str = "src/engine/batch.rs";

pub(super) const MISTAKES: [Mistake; 22] = [
    Mistake {
        name: "an abort leaves the second batch open",
        edits: &[Edit {
            file: OUTCOME,
            find: "Outcome::Aborted { .. } => {\n                self.pause_after_abort(now);\n                self.discard_open(commands);",
            put: "Outcome::Aborted { .. } => {\n                self.pause_after_abort(now);\n                if !PLANTED { self.discard_open(commands); }",
        }],
    },
    Mistake {
        name: "an abort does not rewind",
        edits: &[Edit {
            file: OUTCOME,
            find: "self.rewind(&batch, commands);\n            }\n            Outcome::Replace",
            put: "if !PLANTED { self.rewind(&batch, commands); }\n            }\n            Outcome::Replace",
        }],
    },
    Mistake {
        name: "a replaced producer's batch counts as committed",
        edits: &[Edit {
            file: OUTCOME,
            find: "        match outcome {",
            put: "        let outcome = if PLANTED && matches!(outcome, Outcome::Replace { .. }) { Outcome::Committed } else { outcome };\n        match outcome {",
        }],
    },
    Mistake {
        name: "a replaced producer's batch counts as aborted",
        edits: &[Edit {
            file: OUTCOME,
            find: "        self.producer = Producer::Initialising;\n",
            put: "        if PLANTED {\n            self.rewind(&sent.batch, commands);\n            commands.push(Command::WriteOff(sent.batch));\n            return commands.push(Command::Reinitialise);\n        }\n        self.producer = Producer::Initialising;\n",
        }],
    },
    Mistake {
        name: "the number of the batch in the owner record is not compared",
        edits: &[Edit { file: OUTCOME, find: " && owner.batch == batch.id)", put: " && (PLANTED || owner.batch == batch.id))" }],
    },
    Mistake {
        name: "a commit does not move the committed offset",
        edits: &[Edit { file: OUTCOME, find: "*committed = interval.end;", put: "if !PLANTED { *committed = interval.end; }" }],
    },
    Mistake {
        name: "one offset too many is committed",
        edits: &[Edit {
            file: WORKER,
            find: "        let partition = handed.partition;\n",
            put: "        let mut handed = handed;\n        if PLANTED { handed.next = handed.next.next(); }\n        let partition = handed.partition;\n",
        }],
    },
    Mistake {
        name: "a batch of several partitions forgets one's offset",
        edits: &[
            Edit {
                file: WORKER,
                find: "        commands.push(Command::Transact(batch, reason));",
                put: "        let mut batch = batch;\n        if PLANTED { batch.progress.forget_one(); }\n        commands.push(Command::Transact(batch, reason));",
            },
            Edit {
                file: BATCH,
                find: "impl Progress {\n",
                put: "impl Progress {\n    /// Planted.\n    pub fn forget_one(&mut self) {\n        if self.intervals.len() > 1 { self.intervals.pop_last(); }\n    }\n",
            },
        ],
    },
    Mistake {
        name: "fates are not counted",
        edits: &[Edit { file: WORKER, find: "open.fates.merge(&handed.fates);", put: "if !PLANTED { open.fates.merge(&handed.fates); }" }],
    },
    Mistake {
        name: "a batch closes between two partitions of one round",
        edits: &[Edit {
            file: WORKER,
            find: "Event::Handed(handed) => return self.handed(handed, now),",
            put: "Event::Handed(handed) if !PLANTED => return self.handed(handed, now),\n            Event::Handed(handed) => self.handed(handed, now),",
        }],
    },
    Mistake {
        name: "a loss leaves the open batch",
        edits: &[Edit { file: ASSIGNMENT, find: "        if touched {", put: "        if touched && !PLANTED {" }],
    },
    Mistake {
        name: "a partition is released while a batch of it is in flight",
        edits: &[Edit {
            file: ASSIGNMENT,
            find: "[&self.in_flight, &self.in_doubt].into_iter().flatten().any(|sent| sent.holds(partition))",
            put: "!PLANTED && [&self.in_flight, &self.in_doubt].into_iter().flatten().any(|sent| sent.holds(partition))",
        }],
    },
    Mistake {
        name: "another owner's record is taken for a witness",
        edits: &[Edit { file: ASSIGNMENT, find: "Some(owner)) if expects_ours &&", put: "Some(owner)) if !PLANTED && expects_ours &&" }],
    },
    Mistake {
        name: "a partition that was away stays a witness",
        edits: &[Edit {
            file: ASSIGNMENT,
            find: "        for sent in [&mut self.in_flight, &mut self.in_doubt].into_iter().flatten() {",
            put: "        for sent in [&mut self.in_flight, &mut self.in_doubt].into_iter().flatten().filter(|_| !PLANTED) {",
        }],
    },
    Mistake {
        name: "a gained partition begins at its log's start",
        edits: &[Edit {
            file: ASSIGNMENT,
            find: "assigned.task = Task::Known { at };\n",
            put: "let at = if PLANTED { transom_sdk::Offset::ZERO } else { at };\n                    assigned.task = Task::Known { at };\n",
        }],
    },
    Mistake {
        name: "partitions go on without the seek after a replaced producer",
        edits: &[Edit { file: ASSIGNMENT, find: "        if !seeks.is_empty() {", put: "        if !seeks.is_empty() && !PLANTED {" }],
    },
    Mistake {
        name: "a gained partition is not claimed",
        edits: &[Edit {
            file: ASSIGNMENT,
            find: "            commands.push(Command::Claim(positions));",
            put: "            if PLANTED { return self.claimed(Claim::Committed, Millis(0), commands); }\n            commands.push(Command::Claim(positions));",
        }],
    },
    Mistake {
        name: "a refused claim leaves the client waiting",
        edits: &[Edit {
            file: ASSIGNMENT,
            find: "            let was_unclaimed = self.unclaimed.remove(&partition);\n",
            put: "            if PLANTED && claim == Claim::Refused {\n                assigned.task = Task::Waiting { from: now.plus(RESOLVE_PAUSE_MS) };\n                continue;\n            }\n            let was_unclaimed = self.unclaimed.remove(&partition);\n",
        }],
    },
    Mistake {
        name: "a partition claimed late goes on without the seek",
        edits: &[Edit {
            file: ASSIGNMENT,
            find: "if claim == Claim::Committed && !seek.is_empty() {",
            put: "if claim == Claim::Committed && !seek.is_empty() && !PLANTED {",
        }],
    },
    Mistake {
        name: "all that are accused together are condemned",
        edits: &[Edit { file: HUNT, find: "let is_alone = suspects.len() == 1;", put: "let is_alone = PLANTED || suspects.len() == 1;" }],
    },
    Mistake {
        name: "a refused batch does not rewind",
        edits: &[Edit {
            file: OUTCOME,
            find: "self.rewind(&batch, commands);\n                self.condemn(",
            put: "if !PLANTED { self.rewind(&batch, commands); }\n                self.condemn(",
        }],
    },
    Mistake {
        name: "a refused dead letter is sent again as it was",
        edits: &[Edit {
            file: HUNT,
            find: "let earlier = self.condemned.remove(&place);",
            put: "let earlier = self.condemned.remove(&place).filter(|_| !PLANTED);\n            let refused = if PLANTED { Refused::Output } else { refused };",
        }],
    },
];
