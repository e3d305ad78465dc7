//! Which partitions were reported as assigned and are not given back yet.
//!
//! The library may assign anew without a revoke: an offset commit that the group refuses by its generation makes it join again,
//! and if the assignment before was not accepted by then, it takes nothing back that it never saw accepted. The engine may not
//! meet a partition twice (EO-2), so those of before are reported as lost first. The library is not told of that: it has
//! forgotten them, and an empty assignment would be taken for the answer to the new one.

use transom_engine::SourcePartition;
use transom_runtime::SourceEvent;

/// What an assignment stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// All partitions of the member.
    Eager,
    /// Those it gains.
    Cooperative,
}

/// Whether the library is to be told that partitions are given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenBack {
    ToBeTold,
    Already,
}

/// Partitions reported as assigned and not given back yet.
#[derive(Debug, Default)]
pub(crate) struct Announced {
    partitions: Vec<SourcePartition>,
    /// Reported as lost because a new assignment came without a revoke.
    replaced: Vec<SourcePartition>,
}

impl Announced {
    /// Takes note of an event of the library. Returns what is to be reported now, and what when that was answered.
    pub(crate) fn note(&mut self, event: SourceEvent, protocol: Protocol) -> (SourceEvent, Option<SourceEvent>) {
        let SourceEvent::Assigned(new) = event else { return (event, None) };
        let is_replaced = |place: &SourcePartition| protocol == Protocol::Eager || new.contains(place);
        let (replaced, kept): (Vec<_>, Vec<_>) = self.partitions.iter().partition(|place| is_replaced(place));
        self.partitions = kept.into_iter().chain(new.iter().copied()).collect();
        if replaced.is_empty() {
            return (SourceEvent::Assigned(new), None);
        }
        self.replaced.clone_from(&replaced);
        (SourceEvent::Lost(replaced), Some(SourceEvent::Assigned(new)))
    }

    /// Takes note that partitions are given back.
    pub(crate) fn give_back(&mut self, places: &[SourcePartition]) -> GivenBack {
        if !self.replaced.is_empty() && places.iter().all(|place| self.replaced.contains(place)) {
            self.replaced.clear();
            return GivenBack::Already;
        }
        self.partitions.retain(|place| !places.contains(place));
        GivenBack::ToBeTold
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_engine::TopicId;
    use transom_sdk::PartitionId;

    fn places(numbers: &[i32]) -> Vec<SourcePartition> {
        numbers.iter().map(|number| SourcePartition { topic: TopicId(0), partition: PartitionId::new(*number).unwrap() }).collect()
    }

    fn assigned(numbers: &[i32]) -> SourceEvent {
        SourceEvent::Assigned(places(numbers))
    }

    #[test]
    fn an_assignment_without_a_revoke_before_it_loses_the_last_one_first() {
        let mut announced = Announced::default();
        assert_eq!(announced.note(assigned(&[0]), Protocol::Eager), (assigned(&[0]), None));
        let (now, then) = announced.note(assigned(&[0, 1]), Protocol::Eager);
        assert_eq!((now, then), (SourceEvent::Lost(places(&[0])), Some(assigned(&[0, 1]))));
        assert_eq!(announced.give_back(&places(&[0])), GivenBack::Already, "the library has forgotten it");
        assert_eq!(announced.give_back(&places(&[0, 1])), GivenBack::ToBeTold);
        assert_eq!(announced.note(assigned(&[1]), Protocol::Eager), (assigned(&[1]), None));
    }

    #[test]
    fn a_revoke_that_was_answered_leaves_nothing_to_lose() {
        let mut announced = Announced::default();
        let _ = announced.note(assigned(&[0, 1]), Protocol::Eager);
        let revoked = SourceEvent::Revoked(places(&[0, 1]));
        assert_eq!(announced.note(revoked.clone(), Protocol::Eager), (revoked, None));
        assert_eq!(announced.give_back(&places(&[0, 1])), GivenBack::ToBeTold);
        assert_eq!(announced.note(assigned(&[0]), Protocol::Eager), (assigned(&[0]), None));
    }

    #[test]
    fn the_cooperative_protocol_adds_to_what_is_there() {
        let mut announced = Announced::default();
        let _ = announced.note(assigned(&[0]), Protocol::Cooperative);
        assert_eq!(announced.note(assigned(&[1]), Protocol::Cooperative), (assigned(&[1]), None));
        let (now, then) = announced.note(assigned(&[1, 2]), Protocol::Cooperative);
        assert_eq!((now, then), (SourceEvent::Lost(places(&[1])), Some(assigned(&[1, 2]))));
    }
}
