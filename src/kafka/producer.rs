//! The producer's half: one transaction after the other, each to a known end.

mod group_reader;
mod initialise;
mod marker_wait;
mod meet;
mod nudge;
mod ownership;
mod refusal;
mod rehearsal;
mod settle;
mod write;

use crate::admin::{Topics, metadata};
use crate::broker::Guarantee;
use crate::consumer::commit_offsets;
use crate::disposition::{Step, api_key, code, disposition};
use crate::ffi;
use crate::guard::Taint;
use crate::handle::{ClientError, Handle, Kind, Properties, Undelivered};
use crate::list::{PartitionList, c_string};
use crate::planted::Planted;
use crate::preflight::StartOffset;
use group_reader::GroupReader;
use marker_wait::MarkerWait;
use nudge::Nudge;
use refusal::{Verdict, judge};
use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};
use transom_engine::{
    Ask, Disposition, Outcome, OwnerRecord, OwnerSeen, Place, Resolved, SourcePartition, StopReason, Suspect, Takeover, TransactionalId,
};
use transom_runtime::{Call, InitError, Membership, SealedBatch, Transactor, Watch};
use transom_sdk::OutputView;
use write::try_produce;

/// One bounded attempt at initialising; the caller tries again.
const INIT_TIMEOUT_MS: i32 = 10_000;
const INIT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the group coordinator may take to list offsets.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the cluster may take to say which topics there are.
const TOPIC_LOOK_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a producer in a fatal state waits for the answers to what it sent. Who is fenced gets them within milliseconds; a
/// broker that answers nothing refuses nothing either.
const LAST_ANSWERS_TIMEOUT: Duration = Duration::from_secs(2);
/// How often acknowledgements are looked at: they wake nobody, and a commit waits for them.
const DELIVERY_LOOK_MS: i32 = 1;
/// Pause while the client's queue is full; deliveries go on meanwhile.
const QUEUE_FULL_PAUSE_MS: i32 = 5;

/// What a worker's producer is made of.
#[derive(Clone, Debug)]
pub(crate) struct ProducerOptions {
    pub(crate) properties: Properties,
    /// For requests beside the stream.
    pub(crate) request_properties: Properties,
    pub(crate) transactional_id: TransactionalId,
    pub(crate) instance: String,
    pub(crate) workers: u16,
    pub(crate) start: StartOffset,
    pub(crate) guarantee: Guarantee,
    pub(crate) planted: Planted,
    pub(crate) group_id: String,
    pub(crate) inputs: Vec<String>,
    /// Topics by the index of `OutputId`: routes, then dead letters.
    pub(crate) topics: Vec<String>,
    pub(crate) send_offsets_timeout: Duration,
    pub(crate) commit_timeout: Duration,
}

struct Topic(NonNull<ffi::rd_kafka_topic_t>);

/// A living producer with its topic handles.
struct Producer {
    // Order matters: topics go before the client.
    topics: Vec<Topic>,
    client: Handle,
}

impl Drop for Producer {
    /// librdkafka 2.12.1 frees the text of a fatal error when it begins to terminate (`rd_kafka_txns_term`), and once more when a
    /// produce request is refused after that (`rd_kafka_txn_set_fatal_error`, by a broker's thread): the heap is corrupted.
    /// So a fenced producer goes only when the answers to its produce requests are in.
    fn drop(&mut self) {
        if self.client.fatal_error().is_some() {
            self.client.quiesce(LAST_ANSWERS_TIMEOUT);
        }
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        // SAFETY: the reference is ours.
        unsafe { ffi::rd_kafka_topic_destroy(self.0.as_ptr()) }
    }
}

/// The transactional producer of one worker; replaced after an unknown outcome.
pub struct KafkaProducer {
    options: ProducerOptions,
    producer: Option<Producer>,
    /// The worker's consumer: offsets of the group are asked for on its handle (see `admin`).
    group_client: Arc<Handle>,
    group_reader: GroupReader,
    /// Why the producer must be replaced before the next transaction, if it must (see `guard`).
    taint: Option<Taint>,
    recycled: Option<&'static str>,
    /// An output topic that was not there at the last look.
    missing: Option<String>,
    input_names: Vec<CString>,
    watch: Arc<Watch>,
    marker_wait: MarkerWait,
    nudge: Nudge,
}

// SAFETY: raw pointers inside are owned; librdkafka objects may be used from any one thread at a time.
unsafe impl Send for KafkaProducer {}

/// Where a transaction went wrong.
enum Broken {
    /// Abort it, then this.
    Abort(String),
    /// Abort it, then stop for this.
    AbortAndStop(StopReason),
    /// Abort it, then look for the culprit.
    Poison { suspects: Vec<Suspect>, why: String },
    /// Abort it, then wait for this topic.
    TopicGone { topic: String, why: String },
    /// Replace the producer.
    Replace { why: String, fenced: bool },
}

impl KafkaProducer {
    pub(crate) fn new(options: ProducerOptions, group_client: Arc<Handle>) -> Self {
        let input_names = options.inputs.iter().map(|topic| c_string(topic)).collect();
        let backoff_max = options.properties.get("retry.backoff.max.ms").and_then(|text| text.parse().ok()).map(Duration::from_millis);
        let group_reader = GroupReader::new(Arc::clone(&group_client), options.request_properties.clone(), options.group_id.clone());
        Self {
            options,
            producer: None,
            group_client,
            group_reader,
            taint: None,
            recycled: None,
            missing: None,
            input_names,
            watch: Arc::default(),
            marker_wait: MarkerWait::default(),
            nudge: Nudge::start(backoff_max),
        }
    }

    fn open(&self) -> Result<Producer, ClientError> {
        let kind = match self.options.guarantee {
            Guarantee::ExactlyOnce => Kind::TransactionalProducer,
            Guarantee::AtLeastOnce | Guarantee::AtMostOnce => Kind::PlainProducer,
        };
        let client = Handle::new(kind, &self.options.properties)?;
        let mut topics = Vec::with_capacity(self.options.topics.len());
        for topic in &self.options.topics {
            // SAFETY: the client is alive, the name is copied, no topic configuration is given.
            let topic = unsafe { ffi::rd_kafka_topic_new(client.as_ptr(), c_string(topic).as_ptr(), std::ptr::null_mut()) };
            topics.push(NonNull::new(topic).map(Topic).ok_or_else(|| {
                // SAFETY: reads the calling thread's last error.
                ClientError::from_code(unsafe { ffi::rd_kafka_last_error() })
            })?);
        }
        Ok(Producer { topics, client })
    }

    fn send(&self, producer: &Producer, sealed: &SealedBatch) -> Result<(), Broken> {
        // SAFETY: the client is alive.
        let begun = ClientError::check(unsafe { ffi::rd_kafka_begin_transaction(producer.client.as_ptr()) });
        begun.map_err(|error| broken(Step::Begin, &error))?;
        if let Planted::AbortsAtOnce { pause_ms } = self.options.planted
            && let Some(view) = sealed.outputs.get(0)
        {
            self.produce(producer, 0, &view).map_err(|error| broken(Step::Produce, &error))?;
            producer.client.serve(i32::from(pause_ms));
            return Err(Broken::Abort("aborted right after its first output".to_owned()));
        }
        self.produce_all(producer, sealed)?;
        self.send_offsets(producer, sealed)?;
        self.deliver(producer)?;
        self.commit(producer)
    }

    /// Waits until every output is acknowledged, or one is refused. The library's own wait inside the commit sleeps in
    /// slices of 10 ms, and when one output was refused it waits out the whole deadline for others it will not send.
    fn deliver(&self, producer: &Producer) -> Result<(), Broken> {
        self.watch.during(Call::Deliver, self.options.commit_timeout, || self.await_delivery(producer))
    }

    fn await_delivery(&self, producer: &Producer) -> Result<(), Broken> {
        let begun = Instant::now();
        let deadline = begun + self.options.commit_timeout;
        producer.client.serve(0);
        loop {
            if producer.client.mailbox().has_refused() {
                return Err(Broken::Abort("an output was not delivered".to_owned()));
            }
            if producer.client.undelivered() == 0 {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let why = format!("outputs were not acknowledged within {} ms", self.options.commit_timeout.as_millis());
                if let Some(topic) = missing_topic(producer) {
                    return Err(Broken::TopicGone { topic, why });
                }
                let is_sent = producer.client.mailbox().guard.was_sent(api_key::PRODUCE);
                self.watch.silent(if is_sent { Call::Deliver } else { Call::AddPartitions }, begun, &*why);
                return Err(Broken::Abort(why));
            }
            producer.client.serve(DELIVERY_LOOK_MS);
        }
    }

    /// Sends without a transaction: outputs and offsets one after the other. What goes wrong between them repeats records
    /// (at least once) or loses them (at most once), as the pipeline chose by name.
    fn send_untransacted(&self, producer: &Producer, sealed: &SealedBatch) -> Result<(), Broken> {
        let replace = |why: String| Broken::Replace { why, fenced: false };
        let commit = || {
            let result = commit_offsets(&self.group_client, &self.offsets(sealed), self.options.send_offsets_timeout);
            result.map_err(|error| replace(format!("offset commit: {error}")))
        };
        let deliver = || {
            self.produce_all(producer, sealed)?;
            self.deliver(producer)
        };
        match self.options.guarantee {
            Guarantee::AtMostOnce => commit().and_then(|()| deliver()),
            Guarantee::ExactlyOnce | Guarantee::AtLeastOnce => deliver().and_then(|()| commit()),
        }
    }

    fn produce_all(&self, producer: &Producer, sealed: &SealedBatch) -> Result<(), Broken> {
        if self.options.planted == Planted::FirstOutputTwice
            && let Some(view) = sealed.outputs.get(0)
        {
            let _ = self.produce(producer, 0, &view);
        }
        let forgotten = usize::from(self.options.planted == Planted::LastOutputForgotten);
        for (index, view) in sealed.outputs.iter().enumerate().take(sealed.outputs.len() - forgotten.min(sealed.outputs.len())) {
            if let Err(error) = self.produce(producer, index, &view) {
                // What the client itself refuses is refused alone.
                return Err(self.refusal(&[Undelivered { index, error: error.clone() }], sealed).unwrap_or_else(|| broken(Step::Produce, &error)));
            }
        }
        Ok(())
    }

    fn offsets(&self, sealed: &SealedBatch) -> PartitionList {
        let stamp = |owner: &OwnerRecord, place: &SourcePartition| {
            self.group_client.mailbox().topics.stamped(owner, &self.options.inputs[usize::from(place.topic.0)])
        };
        let mut offsets = PartitionList::new();
        for (place, offset, owner) in &sealed.offsets {
            let name = &self.input_names[usize::from(place.topic.0)];
            let ahead = i64::from(self.options.planted == Planted::OffsetsOneAhead);
            let epoch = self.group_client.mailbox().epochs.of(&self.options.inputs[usize::from(place.topic.0)], place.partition.get(), offset.get());
            offsets.add_with_epoch(name, place.partition.get(), offset.get() + ahead, epoch, Some(&stamp(owner, place)));
        }
        offsets
    }

    /// Queues one output; its bytes are copied. A full queue is waited for within the commit deadline.
    fn produce(&self, producer: &Producer, index: usize, view: &OutputView<'_>) -> Result<(), ClientError> {
        let mut deadline = None;
        loop {
            let Err(error) = try_produce(producer, index, view) else { return Ok(()) };
            // The clock is read only now: for every output it would be a twentieth of what copying one costs.
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + self.options.commit_timeout);
            if disposition(Step::Produce, &error) != Disposition::Retry || Instant::now() >= deadline {
                return Err(error);
            }
            producer.client.serve(QUEUE_FULL_PAUSE_MS);
        }
    }

    fn send_offsets(&self, producer: &Producer, sealed: &SealedBatch) -> Result<(), Broken> {
        let offsets = self.offsets(sealed);
        if self.options.planted == Planted::OffsetsOutsideTransaction {
            return commit_offsets(&self.group_client, &offsets, self.options.send_offsets_timeout)
                .map_err(|error| broken(Step::SendOffsets, &error));
        }
        let metadata = group_metadata(&sealed.membership);
        let timeout = milliseconds(self.options.send_offsets_timeout);
        let begun = Instant::now();
        let send = || {
            // SAFETY: client, list and metadata are alive; all are copied. The metadata object is ours and freed here.
            unsafe {
                let error = ffi::rd_kafka_send_offsets_to_transaction(producer.client.as_ptr(), offsets.as_ptr(), metadata, timeout);
                ffi::rd_kafka_consumer_group_metadata_destroy(metadata);
                ClientError::check(error)
            }
        };
        let nudged = || self.nudge.during(producer.client.mailbox(), send);
        let result = self.watch.during(Call::SendOffsets, self.options.send_offsets_timeout, nudged);
        match &result {
            Err(error) if error.code == code::TIMED_OUT => {
                let is_sent = producer.client.mailbox().guard.was_sent(api_key::TXN_OFFSET_COMMIT);
                self.watch.silent(if is_sent { Call::StoreOffsets } else { Call::AddGroup }, begun, error.to_string());
            }
            // What the coordinator refused it has answered.
            Ok(()) | Err(_) => self.watch.answered(Call::SendOffsets),
        }
        result.map_err(|error| broken(Step::SendOffsets, &error))
    }

    fn commit(&self, producer: &Producer) -> Result<(), Broken> {
        let begun = Instant::now();
        let deadline = begun + self.options.commit_timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            // SAFETY: the client is alive.
            let commit = || ClientError::check(unsafe { ffi::rd_kafka_commit_transaction(producer.client.as_ptr(), milliseconds(left)) });
            let Err(error) = self.watch.during(Call::Commit, left, commit) else {
                self.watch.forget();
                return Ok(());
            };
            let disposition = disposition(Step::Commit, &error);
            if disposition == Disposition::Retry && Instant::now() >= deadline {
                self.watch.silent(Call::Commit, begun, error.to_string());
            }
            match disposition {
                Disposition::Retry if Instant::now() < deadline => {}
                Disposition::Retry if self.options.planted == Planted::UnknownIsAborted => return Err(Broken::Abort(error.to_string())),
                Disposition::Retry => return Err(Broken::Replace { why: format!("commit without an answer: {error}"), fenced: false }),
                Disposition::Abort | Disposition::Fenced | Disposition::Unknown | Disposition::Poison | Disposition::Fatal => {
                    return Err(broken(Step::Commit, &error));
                }
            }
        }
    }

    /// Says what is behind a transaction that must be aborted, if outputs were refused: the first call that fails after a
    /// refusal knows only that there was one.
    fn explain(&self, broken: Broken, producer: &Producer, sealed: &SealedBatch) -> Broken {
        let Broken::Abort(why) = broken else { return broken };
        producer.client.serve(0);
        let refusal = self.refusal(&producer.client.mailbox().take_refused(), sealed);
        // Outputs for a topic that is gone fail in several ways, and some do not say so.
        let gone = |why: &str| missing_topic(producer).map(|topic| Broken::TopicGone { topic, why: why.to_owned() });
        refusal.or_else(|| gone(&why)).unwrap_or(Broken::Abort(why))
    }

    fn refusal(&self, undelivered: &[Undelivered], sealed: &SealedBatch) -> Option<Broken> {
        Some(match judge(undelivered, sealed, &self.options.topics)? {
            Verdict::NotPermitted { what } => Broken::AbortAndStop(StopReason::NotPermitted { what }),
            Verdict::TopicGone { topic, why } => Broken::TopicGone { topic, why },
            // The offsets are committed: reading again would lose nothing and repeat everything.
            Verdict::Poison { suspects, .. } if self.options.guarantee == Guarantee::AtMostOnce => {
                let suspect = suspects.into_iter().next()?;
                let topic = self.options.inputs.get(usize::from(suspect.partition.topic.0))?.clone();
                let place = Place { topic, partition: suspect.partition.partition.get(), offset: suspect.offset.get() };
                let (topic, reason) = (suspect.refusal.topic.clone(), suspect.refusal.words.clone());
                Broken::AbortAndStop(StopReason::PoisonOutput { topic, reason, place })
            }
            Verdict::Poison { suspects, why } => Broken::Poison { suspects, why },
        })
    }

    /// Replaces the producer of a tainted transaction before the next one begins: a late request of the old one dies of the
    /// new epoch. The batch in hand goes out on the new one. So it does when the old one is gone already.
    fn recycle(&mut self) -> Result<(), String> {
        let taint = match self.taint {
            Some(_) if self.options.planted == Planted::NoRecycleGuard => return Ok(()),
            Some(taint) => taint,
            None if self.producer.is_none() => Taint { kind: "refused_output", how: "dropped" },
            None => return Ok(()),
        };
        self.producer = None;
        match self.initialise() {
            Ok(()) => {
                tracing::info!(transactional_id = %self.options.transactional_id, request = taint.kind, how = taint.how, "producer recycled");
                self.taint = None;
                self.recycled = Some(taint.kind);
                Ok(())
            }
            Err(InitError::NotYet(why)) => Err(why),
            Err(InitError::Stop(reason)) => Err(reason.to_string()),
            Err(_) => Err("the producer cannot be replaced".to_owned()),
        }
    }

    /// Looks whether the topic that was missing is back; until then nothing is sent.
    fn look_for_topic(&mut self) -> Result<(), String> {
        let (Some(topic), Some(producer)) = (&self.missing, &self.producer) else { return Ok(()) };
        if let Some(missing) = missing_topic(producer) {
            return Err(waiting_for(&missing, "it is still missing"));
        }
        tracing::info!(topic = %topic, "the output topic is back");
        self.missing = None;
        Ok(())
    }

    /// Sends a batch to a known end; see [`Transactor::transact`].
    fn transact_batch(&mut self, sealed: &SealedBatch) -> Outcome {
        assert!(!sealed.offsets.is_empty(), "EO-2: a transaction without offsets would commit unfenced");
        if let Err(why) = self.recycle().and_then(|()| self.look_for_topic()) {
            return Outcome::Aborted { why };
        }
        let Some(producer) = &self.producer else { return Outcome::Aborted { why: "there is no producer".to_owned() } };
        let mailbox = Arc::clone(producer.client.mailbox());
        mailbox.take_refused();
        mailbox.guard.begin();
        let sent = match self.options.guarantee {
            Guarantee::ExactlyOnce => self.send(producer, sealed),
            Guarantee::AtLeastOnce | Guarantee::AtMostOnce => self.send_untransacted(producer, sealed),
        };
        let outcome = match sent {
            Ok(()) => {
                self.marker_wait.note(mailbox.guard.offsets_were_asked_again());
                Outcome::Committed
            }
            Err(broken) => {
                let broken = self.explain(broken, producer, sealed);
                self.settle(broken)
            }
        };
        // A producer that is gone already can send nothing late.
        let transacted = self.options.guarantee == Guarantee::ExactlyOnce;
        self.taint = (transacted && self.producer.is_some()).then(|| mailbox.guard.taint()).flatten();
        if self.producer.is_some() && self.watch.is_silent_on_offsets() {
            // The client may wait for a coordinator that is gone for good, and remembers it (see `group_reader`).
            self.taint = self.taint.or(Some(Taint { kind: "send_offsets", how: "was not answered" }));
        }
        let is_refused = matches!(outcome, Outcome::Poisoned { .. }) || self.missing.is_some();
        if is_refused && self.producer.is_some() {
            // The library goes on counting behind an output that was not taken, and the broker would refuse the next one for
            // the gap; for a topic that is made anew the count is wrong altogether. A new producer begins anew.
            self.taint = Some(Taint { kind: "refused_output", how: "leaves a gap" });
        }
        outcome
    }
}

impl Transactor for KafkaProducer {
    fn initialise(&mut self) -> Result<(), InitError> {
        self.initialise_once()
    }

    fn transact(&mut self, sealed: &SealedBatch) -> Outcome {
        self.rehearse_aborts(sealed);
        self.transact_batch(sealed)
    }

    fn rest(&mut self) {
        let wait = self.marker_wait.duration();
        if !wait.is_zero() {
            std::thread::sleep(wait);
        }
    }

    fn take_recycled(&mut self) -> Option<&'static str> {
        self.recycled.take()
    }

    fn watch(&self) -> Arc<Watch> {
        Arc::clone(&self.watch)
    }

    fn resolve(&mut self, asked: &[Ask]) -> Vec<Resolved> {
        let answer = |seen: &dyn Fn(SourcePartition) -> OwnerSeen| {
            asked.iter().map(|&Ask { partition, assignment, .. }| Resolved { partition, assignment, seen: seen(partition) }).collect()
        };
        let name = |ask: &Ask| (self.options.inputs[usize::from(ask.partition.topic.0)].clone(), ask.partition.partition.get());
        let places: Vec<_> = asked.iter().map(name).collect();
        let gained: Vec<_> = asked.iter().filter(|ask| ask.takeover == Takeover::Fence).map(name).collect();
        self.take_over(&gained);
        let listed = match self.read_offsets(Some(&places), true) {
            Ok(listed) => listed,
            Err(error) => {
                tracing::warn!(error = %error, "committed offsets cannot be read yet; trying again");
                return answer(&|_| OwnerSeen::Unanswered);
            }
        };
        answer(&|place| {
            let topic = &self.options.inputs[usize::from(place.topic.0)];
            let entry = listed.iter().find(|entry| entry.topic == *topic && entry.partition == place.partition.get());
            entry.map_or(OwnerSeen::Unanswered, |entry| self.owner_seen(place, entry))
        })
    }

    fn serve(&mut self) {
        if let Some(producer) = &self.producer {
            producer.client.serve(0);
        }
    }

    fn producer(&self) -> Option<(i64, i32)> {
        self.producer.as_ref()?.client.mailbox().producer()
    }
}

/// Returns an output topic that does not exist, as far as the cluster answers in time.
fn missing_topic(producer: &Producer) -> Option<String> {
    let known = metadata(&producer.client, Topics::Own, TOPIC_LOOK_TIMEOUT).ok()?;
    known.topics.into_iter().find(|(_, _, code)| *code == code::UNKNOWN_TOPIC_OR_PART).map(|(topic, ..)| topic)
}

fn waiting_for(topic: &str, why: &str) -> String {
    format!(
        "output topic {topic} does not exist any more ({why}); nothing is set aside and nothing is lost: create it again \
         (transom topics create PIPELINE.yaml), and the pipeline goes on by itself"
    )
}

fn broken(step: Step, error: &ClientError) -> Broken {
    let why = format!("{step:?}: {error}");
    match disposition(step, error) {
        Disposition::Retry | Disposition::Abort | Disposition::Poison => Broken::Abort(why),
        Disposition::Fenced => Broken::Replace { why, fenced: true },
        Disposition::Unknown | Disposition::Fatal => Broken::Replace { why, fenced: false },
    }
}

fn milliseconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

fn group_metadata(membership: &Membership) -> *mut ffi::rd_kafka_consumer_group_metadata_t {
    let (group, member) = (c_string(&membership.group_id), c_string(&membership.member_id));
    let instance = membership.group_instance_id.as_deref().map(c_string);
    let instance = instance.as_ref().map_or(std::ptr::null(), |instance| instance.as_ptr());
    // SAFETY: all strings are C strings and are copied; the instance may be null.
    unsafe { ffi::rd_kafka_consumer_group_metadata_new_with_genid(group.as_ptr(), membership.generation, member.as_ptr(), instance) }
}
