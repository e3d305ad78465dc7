//! The plan as it may be printed.

use serde_json::{Map, Value, json};

use super::plan::{Assignor, ClientProperties, DeadLetters, Format, GroupProtocol, Input, Output, Plan, Start, Timeouts, Tombstones, Topic};
use super::secret::Property;
use super::unit::{show_duration, show_size};

impl Plan {
    /// Returns the plan in the words of the file, defaults included and secrets replaced, for `transom validate --print`.
    ///
    /// It holds the key `assignor` as well, which follows from the inputs and cannot be written in a file.
    #[must_use]
    pub fn redacted_summary(&self) -> Value {
        let mut summary = json!({
            "pipeline": self.pipeline,
            "kafka": kafka(&self.kafka),
            "start": match self.start {
                Start::Earliest => "earliest",
                Start::Latest => "latest",
            },
            "inputs": self.inputs.iter().map(input).collect::<Vec<_>>(),
            "steps": [{
                "id": self.step.id,
                "process": self.step.process,
                "tombstones": match self.step.tombstones {
                    Tombstones::DeadLetter => "dead_letter",
                    Tombstones::Forward => "forward",
                    Tombstones::Filter => "filter",
                },
                "with": self.step.with.redacted,
            }],
            "outputs": self.outputs.iter().map(output).collect::<Map<_, _>>(),
            "guarantee": self.guarantee.as_str(),
            "workers": self.workers,
            "commit": {
                "interval": show_duration(self.commit.interval),
                "records_max": self.commit.records_max,
                "bytes_max": show_size(self.commit.bytes_max),
            },
            "timeouts": timeouts(&self.timeouts, self.group.protocol),
            "group": { "protocol": match self.group.protocol {
                GroupProtocol::Classic => "classic",
                GroupProtocol::Consumer => "consumer",
            }},
            "assignor": match self.assignor {
                Assignor::Range => "range",
                Assignor::Uniform => "uniform",
            },
            "http": { "listen": self.http.listen.to_string() },
        });
        if let Some(section) = &self.dead_letters {
            summary["dead_letters"] = dead_letters(section);
        }
        summary
    }
}

fn kafka(properties: &ClientProperties) -> Value {
    let with_prefix = |prefix: &'static str, list: &[(String, Property)]| {
        let named = |(name, property): &(String, Property)| (format!("{prefix}{name}"), Value::from(property.to_string()));
        list.iter().map(named).collect::<Vec<_>>()
    };
    let lists = [with_prefix("", &properties.common), with_prefix("consumer.", &properties.consumer), with_prefix("producer.", &properties.producer)];
    Value::Object(lists.into_iter().flatten().collect())
}

fn topic(topic: &Topic) -> Map<String, Value> {
    let pairs =
        [("topic", Value::from(topic.name.as_str())), ("partitions", Value::from(topic.partitions)), ("replication", Value::from(topic.replication))];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn input(input: &Input) -> Value {
    let mut map = topic(&input.topic);
    map.insert("format".to_owned(), Value::from(format_word(input.format)));
    Value::Object(map)
}

fn output(output: &Output) -> (String, Value) {
    let mut map = topic(&output.topic);
    map.insert("format".to_owned(), Value::from(format_word(output.format)));
    if let Some(key) = &output.key {
        map.insert("key".to_owned(), Value::from(key.as_str()));
    }
    (output.name.clone(), Value::Object(map))
}

fn format_word(format: Format) -> &'static str {
    match format {
        Format::Json => "json",
        Format::Bytes => "bytes",
    }
}

fn dead_letters(section: &DeadLetters) -> Value {
    let mut map = topic(&section.topic);
    map.insert("attempts".to_owned(), Value::from(section.attempts));
    map.insert("backoff".to_owned(), Value::from(show_duration(section.backoff)));
    Value::Object(map)
}

fn timeouts(timeouts: &Timeouts, protocol: GroupProtocol) -> Value {
    let mut map = Map::new();
    let mut show = |key: &str, value| map.insert(key.to_owned(), Value::from(show_duration(value)));
    show("send_offsets", timeouts.send_offsets);
    show("commit", timeouts.commit);
    show("transaction", timeouts.transaction);
    show("revoke", timeouts.revoke);
    // With the consumer protocol the broker decides it: the value here has no effect and would mislead.
    if protocol == GroupProtocol::Classic {
        show("session", timeouts.session);
    }
    show("poll_max", timeouts.poll_max);
    show("drain", timeouts.drain);
    show("blocked", timeouts.blocked);
    show("start", timeouts.start);
    Value::Object(map)
}
