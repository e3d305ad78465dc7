//! Consumer groups seen from outside: committed offsets, state and members, in both group protocols.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use bytes::{Buf, Bytes};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::{
    ConsumerGroupDescribeRequest, ConsumerProtocolAssignment, DescribeGroupsRequest, GroupId, OffsetCommitRequest, OffsetFetchRequest,
};
use kafka_protocol::protocol::Decodable;

use super::{Client, Coordinated, check, check_with, error_code, text, topic_name};

/// Which committed offsets are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetsAsked {
    /// Only decided ones, of the topics that exist: waits for open transactions that carry offsets of the group, up to the client's deadline.
    Stable,
    /// The last decided ones, whatever is pending behind them.
    EvenIfPending,
}

/// A group's committed offset in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedOffset {
    /// Where a restart begins, inclusive.
    pub offset: i64,
    /// The string committed with it.
    pub metadata: String,
}

/// A group as its coordinator describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The coordinator's word: `Stable`, `Empty`, `Dead`, `PreparingRebalance`, `Reconciling`, …
    pub state: String,
    /// The members, in the coordinator's order.
    pub members: Vec<GroupMember>,
}

/// One member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMember {
    /// The coordinator's id for it.
    pub member_id: String,
    /// Its `group.instance.id`, if it is a static member.
    pub instance_id: Option<String>,
    /// Its `client.id`.
    pub client_id: String,
    /// The topic-partitions assigned to it, sorted.
    pub assignment: Vec<(String, i32)>,
}

impl Client {
    /// Returns a group's committed offsets; partitions without one are left out.
    ///
    /// # Errors
    /// If the group's coordinator refuses, or an offset stays pending beyond the deadline.
    pub fn committed_offsets(&self, group: &str, asked: OffsetsAsked) -> Result<BTreeMap<(String, i32), CommittedOffset>> {
        let is_stable = asked == OffsetsAsked::Stable;
        // Asked for "all", a coordinator leaves out a partition whose first offset ever is still pending; asked by name, it
        // says that the offset is unstable.
        let topics = if is_stable { Some(self.all_partitions()?) } else { None };
        let of_group =
            OffsetFetchRequestGroup::default().with_group_id(group_id(group)).with_member_id(None).with_member_epoch(-1).with_topics(topics);
        let request = OffsetFetchRequest::default().with_groups(vec![of_group]).with_require_stable(is_stable);
        self.retrying("reading committed offsets", || {
            let answer = self.call_coordinator(Coordinated::Group(group), &request)?;
            let found = answer.groups.into_iter().next().context("an empty answer")?;
            check(found.error_code, || format!("offsets of group {group}"))?;
            let mut offsets = BTreeMap::new();
            for topic in found.topics {
                for partition in topic.partitions {
                    let place = (topic.name.to_string(), partition.partition_index);
                    check(partition.error_code, || format!("offset of group {group} in {}:{}", place.0, place.1))?;
                    let metadata = partition.metadata.map(|text| text.to_string()).unwrap_or_default();
                    let offset = partition.committed_offset;
                    if offset >= 0 {
                        offsets.insert(place, CommittedOffset { offset, metadata });
                    }
                }
            }
            Ok(offsets)
        })
    }

    /// Sets committed offsets of a group without members, as an operator's reset does.
    ///
    /// # Errors
    /// If the group has members or the coordinator refuses.
    pub fn commit_offsets(&self, group: &str, offsets: &BTreeMap<(String, i32), CommittedOffset>) -> Result<()> {
        let mut topics: BTreeMap<&str, Vec<OffsetCommitRequestPartition>> = BTreeMap::new();
        for ((topic, partition), committed) in offsets {
            let entry = OffsetCommitRequestPartition::default()
                .with_partition_index(*partition)
                .with_committed_offset(committed.offset)
                .with_committed_leader_epoch(-1)
                .with_committed_metadata(Some(text(&committed.metadata)));
            topics.entry(topic).or_default().push(entry);
        }
        let topics = topics
            .into_iter()
            .map(|(name, partitions)| OffsetCommitRequestTopic::default().with_name(topic_name(name)).with_partitions(partitions))
            .collect();
        let request = OffsetCommitRequest::default().with_group_id(group_id(group)).with_generation_id_or_member_epoch(-1).with_topics(topics);
        self.retrying("committing offsets", || {
            let answer = self.call_coordinator(Coordinated::Group(group), &request)?;
            let mut partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
            partitions.try_for_each(|done| check(done.error_code, || format!("offsets of group {group}")))
        })
    }

    /// Returns the id of the broker that coordinates a group.
    ///
    /// # Errors
    /// If no broker answers.
    pub fn coordinator_of_group(&self, group: &str) -> Result<i32> {
        self.retrying("looking for a coordinator", || Ok(self.look_up(Coordinated::Group(group))?.node_id.0))
    }

    /// Describes a group, of the classic or the `consumer` protocol; an unknown group is `Dead` and has no members.
    ///
    /// # Errors
    /// If the coordinator refuses.
    pub fn describe_group(&self, group: &str) -> Result<Group> {
        self.retrying("describing a group", || {
            let classic = self.describe_classic(group)?;
            if classic.state == "Dead" {
                // A coordinator of today calls a group of the other protocol dead.
                return Ok(self.describe_new(group)?.unwrap_or(classic));
            }
            Ok(classic)
        })
    }

    fn all_partitions(&self) -> Result<Vec<OffsetFetchRequestTopics>> {
        let topics = self.topics()?.into_iter();
        Ok(topics
            .map(|(name, partitions)| {
                OffsetFetchRequestTopics::default().with_name(topic_name(&name)).with_partition_indexes((0..partitions).collect())
            })
            .collect())
    }

    fn describe_classic(&self, group: &str) -> Result<Group> {
        let request = DescribeGroupsRequest::default().with_groups(vec![group_id(group)]);
        let answer = self.call_coordinator(Coordinated::Group(group), &request)?;
        let found = answer.groups.into_iter().next().context("an empty answer")?;
        check(found.error_code, || format!("group {group}"))?;
        let members = found.members.into_iter().map(|member| {
            Ok(GroupMember {
                member_id: member.member_id.to_string(),
                instance_id: member.group_instance_id.map(|id| id.to_string()),
                client_id: member.client_id.to_string(),
                assignment: classic_assignment(member.member_assignment)?,
            })
        });
        Ok(Group { state: found.group_state.to_string(), members: members.collect::<Result<_>>()? })
    }

    fn describe_new(&self, group: &str) -> Result<Option<Group>> {
        let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![group_id(group)]);
        let answer = self.call_coordinator(Coordinated::Group(group), &request)?;
        let found = answer.groups.into_iter().next().context("an empty answer")?;
        match check_with(found.error_code, found.error_message.as_ref(), || format!("group {group}")) {
            Err(error) if error_code(&error) == Some(ResponseError::GroupIdNotFound) => return Ok(None),
            result => result?,
        }
        let members = found.members.into_iter().map(|member| {
            let topics = member.assignment.topic_partitions.into_iter();
            GroupMember {
                member_id: member.member_id.to_string(),
                instance_id: member.instance_id.map(|id| id.to_string()),
                client_id: member.client_id.to_string(),
                assignment: sorted(topics.map(|topic| (topic.topic_name.to_string(), topic.partitions))),
            }
        });
        Ok(Some(Group { state: found.group_state.to_string(), members: members.collect() }))
    }
}

fn group_id(group: &str) -> GroupId {
    GroupId(text(group))
}

/// The assignment bytes of a classic member: a version, then the message. Empty while the group rebalances.
fn classic_assignment(mut bytes: Bytes) -> Result<Vec<(String, i32)>> {
    if bytes.remaining() < 2 {
        return Ok(Vec::new());
    }
    let version = bytes.get_i16();
    let assignment = ConsumerProtocolAssignment::decode(&mut bytes, version).context("a member's assignment")?;
    let topics = assignment.assigned_partitions.into_iter();
    Ok(sorted(topics.map(|topic| (topic.topic.to_string(), topic.partitions))))
}

fn sorted(topics: impl Iterator<Item = (String, Vec<i32>)>) -> Vec<(String, i32)> {
    let pairs = topics.flat_map(|(name, partitions)| partitions.into_iter().map(move |index| (name.clone(), index)));
    let mut pairs: Vec<_> = pairs.collect();
    pairs.sort();
    pairs
}
