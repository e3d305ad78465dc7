//! A proxy in front of brokers that knows where a request begins and ends, and what it asks for.
//!
//! Rules are armed while a test runs: the n-th request of a kind is delayed, held, cut off or robbed of its answer; all else
//! passes. A held request outlives its client's connection: the connection to the broker stays open, and the request is
//! written when the test releases it, as a packet would arrive that a network kept. It never changes a byte, but may refuse a
//! request in the broker's place.
//!
//! Requests behind a held or delayed one on the same connection wait for it, as they would on any connection.

mod frame;
mod refusal;
mod rule;

use std::collections::HashMap;
use std::io::Write;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::broker::{Cluster, ClusterOptions, Replicated};
use frame::{Header, read_frame};
use refusal::refusal;
use rule::Shared as SharedRule;

pub use rule::{Action, Armed, Rule, kind};

/// How long the broker's side stays open for the answers to what was forwarded, once the client has gone.
const LAST_ANSWERS_DEADLINE: Duration = Duration::from_secs(5);
/// How often a thread that accepts looks whether the proxy was dropped.
const ACCEPT_PAUSE: Duration = Duration::from_millis(5);

/// A frozen broker's queue of connections may be full; its clients shall not wait for longer than they would themselves.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// A listening proxy, with one address for each broker behind it. Dropping it cuts everything.
#[derive(Debug)]
pub struct Proxy {
    addresses: Vec<SocketAddr>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Set once the brokers run: they have to know the proxy's ports before that. In the order of the addresses.
    brokers: OnceLock<Vec<SocketAddr>>,
    rules: Mutex<Vec<Arc<SharedRule>>>,
    links: Mutex<Vec<Weak<Link>>>,
    is_closed: AtomicBool,
}

/// One client's connection and the broker's behind it.
#[derive(Debug)]
struct Link {
    client: TcpStream,
    broker: TcpStream,
    /// Forwarded requests that a rule concerns, by correlation id, until their answers come.
    awaited: Mutex<HashMap<i32, Arc<SharedRule>>>,
    answered: Condvar,
}

/// What guards nothing but counters stays usable when another test thread panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Proxy {
    /// Starts a broker with a proxy in front of it.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn start(options: ClusterOptions) -> anyhow::Result<(Cluster, Self)> {
        let proxy = Self::listen(1).context("listen for clients")?;
        let cluster = Cluster::start(ClusterOptions { proxied_as: Some(proxy.addresses[0].port()), ..options })?;
        proxy.forward_to(vec![cluster.behind_proxy()]);
        Ok((cluster, proxy))
    }

    /// Starts three brokers that replicate, with a proxy in front of all of them. A rule counts the requests to any.
    ///
    /// # Errors
    /// As [`Replicated::start`].
    pub fn start_replicated(options: &ClusterOptions) -> anyhow::Result<(Replicated, Self)> {
        let proxy = Self::listen(Replicated::NODES).context("listen for clients")?;
        let ports = std::array::from_fn(|node| proxy.addresses[node].port());
        let replicated = Replicated::start(options, Some(ports))?;
        proxy.forward_to(replicated.behind_proxy());
        Ok((replicated, proxy))
    }

    fn listen(brokers: usize) -> anyhow::Result<Self> {
        let state = Arc::new(State::default());
        let mut addresses = Vec::new();
        for broker in 0..brokers {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            listener.set_nonblocking(true)?;
            addresses.push(listener.local_addr()?);
            let accepting = Arc::clone(&state);
            thread::Builder::new().name("proxy".to_owned()).spawn(move || accepting.accept(&listener, broker))?;
        }
        Ok(Self { addresses, state })
    }

    fn forward_to(&self, brokers: Vec<SocketAddr>) {
        let _ = self.state.brokers.set(brokers);
    }

    /// Returns the addresses for clients, as a client property.
    pub fn bootstrap(&self) -> String {
        self.addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",")
    }

    /// Arms a rule; it counts the requests from now on, until its handle is dropped.
    #[must_use]
    pub fn arm(&self, rule: Rule) -> Armed {
        let shared = Arc::new(SharedRule::new(rule));
        let mut rules = lock(&self.state.rules);
        rules.retain(|rule| !rule.is_over());
        rules.push(Arc::clone(&shared));
        Armed::new(shared)
    }

    /// Cuts every connection there is now.
    pub fn cut_all(&self) {
        let links: Vec<_> = lock(&self.state.links).drain(..).collect();
        for link in links.iter().filter_map(Weak::upgrade) {
            link.cut_client();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.is_closed.store(true, Ordering::SeqCst);
        for rule in lock(&self.state.rules).drain(..) {
            rule.discard();
        }
        self.cut_all();
    }
}

impl State {
    fn accept(self: Arc<Self>, listener: &TcpListener, broker: usize) {
        while !self.is_closed.load(Ordering::SeqCst) {
            let accepted = listener.accept().and_then(|(client, _)| self.connect(client, broker));
            match accepted {
                Ok(link) => self.serve(&link),
                // Nobody came, or the broker does not listen: the client's connection is closed and it tries again.
                Err(_) => thread::sleep(ACCEPT_PAUSE),
            }
        }
    }

    fn connect(&self, client: TcpStream, broker: usize) -> std::io::Result<Arc<Link>> {
        client.set_nonblocking(false)?;
        client.set_nodelay(true)?;
        let address = self.brokers.get().and_then(|brokers| brokers.get(broker)).ok_or(std::io::ErrorKind::ConnectionRefused)?;
        let broker = TcpStream::connect_timeout(address, CONNECT_DEADLINE)?;
        broker.set_nodelay(true)?;
        Ok(Arc::new(Link { client, broker, awaited: Mutex::default(), answered: Condvar::new() }))
    }

    fn serve(self: &Arc<Self>, link: &Arc<Link>) {
        let mut links = lock(&self.links);
        links.retain(|link| link.strong_count() > 0);
        links.push(Arc::downgrade(link));
        let (state, requests, answers) = (Arc::clone(self), Arc::clone(link), Arc::clone(link));
        thread::spawn(move || {
            // The end of either side ends the connection; which error it was is of no interest to anybody.
            let _ = requests.forward_requests(&state);
            requests.awaits_last_answers();
            requests.cut_client();
            let _ = requests.broker.shutdown(Shutdown::Both);
        });
        thread::spawn(move || {
            let _ = answers.forward_answers();
            answers.cut_client();
        });
    }

    fn rule_for(&self, header: &Header, frame: &[u8]) -> Option<Arc<SharedRule>> {
        let rules: Vec<_> = lock(&self.rules).iter().map(Arc::clone).collect();
        let mut taker = None;
        // All of them count, the first one that wants the request gets it.
        for rule in rules {
            if rule.counts(header, frame) && taker.is_none() && rule.takes() {
                taker = Some(rule);
            }
        }
        taker
    }
}

impl Link {
    fn forward_requests(&self, state: &State) -> anyhow::Result<()> {
        loop {
            let frame = read_frame(&mut &self.client)?;
            let header = Header::of(&frame)?;
            match state.rule_for(&header, &frame) {
                None => (&self.broker).write_all(&frame)?,
                Some(rule) => self.apply(&rule, &header, &frame)?,
            }
        }
    }

    fn apply(&self, rule: &Arc<SharedRule>, header: &Header, frame: &[u8]) -> anyhow::Result<()> {
        match rule.action() {
            Action::Pass | Action::DropAnswer | Action::CutAnswer => {}
            Action::Delay(delay) => thread::sleep(delay),
            Action::Refuse(error) => {
                (&self.client).write_all(&refusal(frame, header, error)?)?;
                rule.caught(header);
                return Ok(());
            }
            Action::Cut => {
                rule.caught(header);
                self.cut_client();
                anyhow::bail!("cut by a rule");
            }
            Action::Hold | Action::HoldAndCut => {
                if rule.action() == Action::HoldAndCut {
                    self.cut_client();
                }
                rule.caught(header);
                anyhow::ensure!(rule.is_released(), "discarded by the test");
            }
        }
        lock(&self.awaited).insert(header.correlation_id, Arc::clone(rule));
        (&self.broker).write_all(frame)?;
        rule.forwarded(header);
        Ok(())
    }

    fn forward_answers(&self) -> anyhow::Result<()> {
        loop {
            let frame = read_frame(&mut &self.broker)?;
            let correlation_id = frame::correlation_id_of_answer(&frame)?;
            let rule = lock(&self.awaited).remove(&correlation_id);
            let action = rule.as_ref().map(|rule| rule.action());
            if action == Some(Action::CutAnswer) {
                self.cut_client();
            } else if action != Some(Action::DropAnswer) {
                // The client may have gone; the answers to what is still under way are read all the same.
                let _ = (&self.client).write_all(&frame);
            }
            if let Some(rule) = rule {
                rule.answered(frame.get(frame::ANSWER_BODY..).unwrap_or_default());
            }
            self.answered.notify_all();
        }
    }

    fn awaits_last_answers(&self) {
        let until = Instant::now() + LAST_ANSWERS_DEADLINE;
        let mut awaited = lock(&self.awaited);
        while !awaited.is_empty() && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            awaited = self.answered.wait_timeout(awaited, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn cut_client(&self) {
        // An error means that it is cut already.
        let _ = self.client.shutdown(Shutdown::Both);
    }
}
