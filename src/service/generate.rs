//! Orders for `transom gen orders`: a seeded sequence with a known number of poison records and duplicates in it.
//!
//! Pure and deterministic: the same options give the same bytes on every machine and in every version, because tests and
//! demos count on them. A change of any byte here is a new generator, not a fix; the last test holds the present one.
//! Never does I/O and never knows a topic.
//!
//! How many records are poison or duplicates is exact, not a matter of luck: the sequence is cut into as many equal strata
//! as there are such records, and each stratum gets one, at a seeded place.

use std::io::Write as _;

/// The order that is poison in every sequence with any poison in it, as runbook and demos name it.
pub const KNOWN_POISON_ORDER_ID: u64 = 175;

/// How far back a duplicate reaches, in valid orders: the distance of a producer's retry, not of a replay.
const RECENT_ORDERS_MAX: usize = 16;

/// 2026-01-22T00:00:00Z, in days since 1970-01-01. Event time begins there and advances 1 ms a record.
const FIRST_DAY: u64 = 20_475;
const DAY_MS: u64 = 86_400_000;

/// Shares are taken in millionths, so that `0.29` of 100 is 29 and not the 28 of binary fractions.
const SHARE_UNIT: u64 = 1_000_000;

/// What to generate.
#[derive(Clone, Copy, Debug)]
pub struct GenerateOptions {
    /// Chooses the sequence.
    pub seed: u64,
    /// How many records, poison and duplicates included.
    pub count: u64,
    /// Share of poison records, `0.0..=1.0` in millionths: exactly `floor(count × share)` records.
    pub poison_share: f64,
    /// Share of duplicates, `0.0..=1.0` in millionths: exactly `floor(count × share)` records, as far as the valid ones reach.
    pub duplicate_share: f64,
    /// How many customers there are, 1 or more. The customer is the record's key.
    pub customers: u64,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedOrder {
    /// The customer's id.
    pub key: Vec<u8>,
    /// The order as JSON, unless poison of a kind that is not.
    pub value: Vec<u8>,
    /// What it is, for whoever counts.
    pub kind: Kind,
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A valid order with an id of its own.
    Order,
    /// Key and value of a recent valid order again.
    Duplicate,
    /// A record that no attempt can process.
    Poison(Poison),
}

/// What is wrong with a poison record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poison {
    /// The amount is `N/A`.
    AmountNotANumber,
    /// The JSON breaks off.
    NotJson,
    /// There is no `customer_id`.
    MissingField,
    /// The order's id is text.
    WrongType,
    /// No bytes at all; not null, which would be a tombstone.
    EmptyValue,
}

const POISONS: [Poison; 5] = [Poison::AmountNotANumber, Poison::NotJson, Poison::MissingField, Poison::WrongType, Poison::EmptyValue];

/// The sequence. Order ids ascend, one a position from 1; a duplicate's position leaves a gap.
#[derive(Clone, Debug)]
pub struct OrderGenerator {
    options: GenerateOptions,
    position: u64,
    poison: Strata,
    /// Over the records that are not poison and not the first, so that each duplicate has something to repeat.
    duplicates: Strata,
    not_poison: u64,
    // Invariant: the latest valid orders with ids of their own, at most RECENT_ORDERS_MAX, oldest overwritten first.
    recent: Vec<(Vec<u8>, Vec<u8>)>,
    fresh: usize,
}

impl OrderGenerator {
    /// Returns the sequence from its first record.
    ///
    /// # Panics
    /// When a share is not within `0.0..=1.0` or there are no customers.
    pub fn new(options: GenerateOptions) -> Self {
        assert!(options.customers > 0, "there is at least one customer");
        let poison_count = share_of(options.count, options.poison_share);
        let repeatable = (options.count - poison_count).saturating_sub(1);
        let duplicate_count = share_of(options.count, options.duplicate_share).min(repeatable);
        let known_poison = KNOWN_POISON_ORDER_ID - 1;
        Self {
            options,
            position: 0,
            poison: Strata::new(options.count, poison_count, options.seed ^ 0x706F_6973_6F6E, Some(known_poison)),
            duplicates: Strata::new(repeatable, duplicate_count, options.seed ^ 0x0064_7570_6C69_6361, None),
            not_poison: 0,
            recent: Vec::with_capacity(RECENT_ORDERS_MAX),
            fresh: 0,
        }
    }

    fn next_poison(&self, id: u64, random: &mut SplitMix64) -> GeneratedOrder {
        let drawn = POISONS[usize_below(random, POISONS.len())];
        let poison = if id == KNOWN_POISON_ORDER_ID { Poison::AmountNotANumber } else { drawn };
        let draft = Draft::new(id, self.options.customers, random);
        GeneratedOrder { key: draft.customer.clone().into_bytes(), value: draft.poisoned(poison), kind: Kind::Poison(poison) }
    }

    fn next_duplicate(&self, random: &mut SplitMix64) -> GeneratedOrder {
        let (key, value) = self.recent[usize_below(random, self.recent.len())].clone();
        GeneratedOrder { key, value, kind: Kind::Duplicate }
    }

    fn next_order(&mut self, id: u64, random: &mut SplitMix64) -> GeneratedOrder {
        let draft = Draft::new(id, self.options.customers, random);
        let (key, value) = (draft.customer.clone().into_bytes(), draft.valid());
        if self.recent.len() < RECENT_ORDERS_MAX {
            self.recent.push((key.clone(), value.clone()));
        } else {
            self.recent[self.fresh % RECENT_ORDERS_MAX] = (key.clone(), value.clone());
        }
        self.fresh += 1;
        GeneratedOrder { key, value, kind: Kind::Order }
    }
}

impl Iterator for OrderGenerator {
    type Item = GeneratedOrder;

    fn next(&mut self) -> Option<GeneratedOrder> {
        if self.position == self.options.count {
            return None;
        }
        // A generator of its own for each record: its bytes do not depend on what was drawn before it.
        let mut random = SplitMix64::new(SplitMix64::new(self.options.seed).next().wrapping_add(self.position));
        let position = self.position;
        self.position += 1;
        if self.poison.contains(position) {
            return Some(self.next_poison(position + 1, &mut random));
        }
        let not_poison = self.not_poison;
        self.not_poison += 1;
        if not_poison > 0 && self.duplicates.contains(not_poison - 1) {
            return Some(self.next_duplicate(&mut random));
        }
        Some(self.next_order(position + 1, &mut random))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.options.count - self.position).ok();
        (left.unwrap_or(usize::MAX), left)
    }
}

/// Exactly `chosen` of `length` places, one in each of `chosen` equal strata.
#[derive(Clone, Debug)]
struct Strata {
    length: u64,
    chosen: u64,
    stratum: u64,
    /// The chosen place of the present stratum; `None` behind the last.
    place: Option<u64>,
    random: SplitMix64,
    /// A place that is chosen in its stratum, whatever is drawn.
    fixed: Option<u64>,
}

impl Strata {
    // Invariant: chosen <= length, so that no stratum is empty.
    fn new(length: u64, chosen: u64, seed: u64, fixed: Option<u64>) -> Self {
        assert!(chosen <= length, "more places chosen than there are");
        let mut strata = Self { length, chosen, stratum: 0, place: None, random: SplitMix64::new(seed), fixed };
        strata.place = strata.draw();
        strata
    }

    /// Returns whether `place` is chosen. Asked once for each place, in ascending order.
    fn contains(&mut self, place: u64) -> bool {
        let chosen = self.place == Some(place);
        if chosen {
            self.stratum += 1;
            self.place = self.draw();
        }
        chosen
    }

    fn draw(&mut self) -> Option<u64> {
        if self.stratum == self.chosen {
            return None;
        }
        let (start, end) = (self.edge(self.stratum), self.edge(self.stratum + 1));
        let drawn = start + self.random.below(end - start);
        Some(self.fixed.filter(|fixed| (start..end).contains(fixed)).unwrap_or(drawn))
    }

    fn edge(&self, stratum: u64) -> u64 {
        ratio(self.length, stratum, self.chosen)
    }
}

/// An order before it is written down.
struct Draft {
    id: u64,
    customer: String,
    cents: u64,
    currency: &'static str,
    event_time: String,
    status: &'static str,
    channel: &'static str,
    items: String,
}

impl Draft {
    fn new(id: u64, customers: u64, random: &mut SplitMix64) -> Self {
        let customer = format!("C-{:05}", random.below(customers));
        let cents = 1 + random.below(50_000);
        let currency = ["EUR", "EUR", "EUR", "USD", "GBP", "CHF"][usize_below(random, 6)];
        let status = ["new", "paid", "packed", "shipped"][usize_below(random, 4)];
        let channel = ["web", "app", "shop"][usize_below(random, 3)];
        // Three orders in four have one item, the others two: about 200 bytes a record.
        let item_count = if random.below(4) < 3 { 1 } else { 2 };
        let items: Vec<String> =
            (0..item_count).map(|_| format!(r#"{{"sku":"SKU-{:04}","qty":{}}}"#, random.below(10_000), 1 + random.below(5))).collect();
        Self { id, customer, cents, currency, event_time: event_time(id - 1), status, channel, items: items.join(",") }
    }

    fn valid(&self) -> Vec<u8> {
        self.write(&self.id.to_string(), &self.customer_field(), &self.amount())
    }

    fn poisoned(&self, poison: Poison) -> Vec<u8> {
        let id = self.id.to_string();
        match poison {
            // Id and amount stand first: it is the record that runbook and demos show.
            Poison::AmountNotANumber => {
                let (customer, rest) = (self.customer_field(), self.rest());
                format!(r#"{{"order_id":{id},"amount":"N/A",{customer}{rest}}}"#).into_bytes()
            }
            Poison::NotJson => {
                let mut value = self.valid();
                value.truncate(value.len() / 2);
                value
            }
            Poison::MissingField => self.write(&id, "", &self.amount()),
            Poison::WrongType => self.write(&format!("\"{id}\""), &self.customer_field(), &self.amount()),
            Poison::EmptyValue => Vec::new(),
        }
    }

    fn amount(&self) -> String {
        format!("{}.{:02}", self.cents / 100, self.cents % 100)
    }

    fn customer_field(&self) -> String {
        format!(r#""customer_id":"{}","#, self.customer)
    }

    fn rest(&self) -> String {
        let Self { currency, event_time, status, channel, items, .. } = self;
        format!(r#""currency":"{currency}","event_time":"{event_time}","status":"{status}","channel":"{channel}","items":[{items}]"#)
    }

    fn write(&self, id: &str, customer_field: &str, amount: &str) -> Vec<u8> {
        let mut value = Vec::with_capacity(256);
        let written = write!(value, r#"{{"order_id":{id},{customer_field}"amount":"{amount}",{}}}"#, self.rest());
        written.expect("a vector takes what is written to it");
        value
    }
}

/// Returns `FIRST_DAY` plus these milliseconds as RFC 3339.
fn event_time(milliseconds: u64) -> String {
    let (year, month, day) = civil_date(FIRST_DAY + milliseconds / DAY_MS);
    let of_day = milliseconds % DAY_MS;
    let (hour, minute, second) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1_000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", of_day % 1_000)
}

/// Returns year, month and day of a day since 1970-01-01 (Howard Hinnant, "chrono-compatible low-level date algorithms").
const fn civil_date(day: u64) -> (u64, u64, u64) {
    // Counted from 0000-03-01, so that a leap day is the last of its year.
    let shifted = day + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + if month <= 2 { 1 } else { 0 };
    (year, month, day_of_month)
}

/// Returns `floor(count × share)`.
fn share_of(count: u64, share: f64) -> u64 {
    assert!((0.0..=1.0).contains(&share), "a share lies within 0.0..=1.0: {share}");
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "0..=1,000,000 after the check above")]
    let millionths = (share * SHARE_UNIT as f64).round() as u64;
    ratio(count, millionths, SHARE_UNIT)
}

/// Returns `floor(whole × part / parts)` for `part <= parts`.
fn ratio(whole: u64, part: u64, parts: u64) -> u64 {
    assert!(part <= parts, "{part} of {parts}");
    let product = u128::from(whole) * u128::from(part) / u128::from(parts);
    u64::try_from(product).expect("a part of a u64 is a u64")
}

fn usize_below(random: &mut SplitMix64, limit: usize) -> usize {
    usize::try_from(random.below(limit as u64)).expect("less than a usize")
}

/// The `SplitMix64` generator (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014): an addition and a
/// mix a number, any seed is good. Our own, because a library may change its stream and the one here must not.
#[derive(Clone, Debug)]
struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`, which is not 0. Multiply and shift: a bias of `limit / 2^64` is no matter here.
    fn below(&mut self, limit: u64) -> u64 {
        assert!(limit > 0, "nothing lies below 0");
        let wide = u128::from(self.next()) * u128::from(limit);
        u64::try_from(wide >> 64).expect("64 bits are left")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(count: u64, poison_share: f64, duplicate_share: f64) -> GenerateOptions {
        GenerateOptions { seed: 7, count, poison_share, duplicate_share, customers: 100 }
    }

    fn generate(count: u64, poison_share: f64, duplicate_share: f64) -> Vec<GeneratedOrder> {
        OrderGenerator::new(options(count, poison_share, duplicate_share)).collect()
    }

    fn text(order: &GeneratedOrder) -> &str {
        std::str::from_utf8(&order.value).unwrap()
    }

    fn id(order: &GeneratedOrder) -> u64 {
        text(order).strip_prefix("{\"order_id\":").unwrap().split_once(',').unwrap().0.parse().unwrap()
    }

    fn count_of(orders: &[GeneratedOrder], wanted: impl Fn(Kind) -> bool) -> usize {
        orders.iter().filter(|order| wanted(order.kind)).count()
    }

    fn is_poison(kind: Kind) -> bool {
        matches!(kind, Kind::Poison(_))
    }

    // Goal: shares are counts. Method: floor(count × share) for many counts and seeds, all strata sizes among them.
    #[test]
    fn poison_and_duplicates_are_exactly_as_many_as_asked_for() {
        for (count, poison_share, duplicate_share, poison, duplicates) in [
            (5_000, 0.02, 0.05, 100, 250),
            (5_000, 0.02, 0.0, 100, 0),
            (100, 0.29, 0.29, 29, 29),
            (100, 0.57, 0.1, 57, 10),
            (999, 0.001, 0.001, 0, 0),
            (1_000, 0.001, 0.001, 1, 1),
            (3, 0.5, 0.5, 1, 1),
            (10, 1.0, 1.0, 10, 0),
            (10, 0.0, 1.0, 0, 9),
            (10, 0.5, 0.9, 5, 4),
            (1, 0.0, 1.0, 0, 0),
            (0, 1.0, 1.0, 0, 0),
        ] {
            for seed in 0..20 {
                let options = GenerateOptions { seed, ..options(count, poison_share, duplicate_share) };
                let orders: Vec<_> = OrderGenerator::new(options).collect();
                assert_eq!(orders.len() as u64, count);
                assert_eq!(count_of(&orders, is_poison), poison, "{options:?}");
                assert_eq!(count_of(&orders, |kind| kind == Kind::Duplicate), duplicates, "{options:?}");
            }
        }
    }

    #[test]
    fn order_175_is_poison_wherever_there_is_any() {
        for (count, poison_share) in [(175, 0.01), (176, 1.0), (5_000, 0.02), (5_000, 0.001), (100_000, 0.5)] {
            for seed in 0..50 {
                let mut orders = OrderGenerator::new(GenerateOptions { seed, ..options(count, poison_share, 0.3) });
                let order = orders.nth(174).unwrap();
                assert_eq!(order.kind, Kind::Poison(Poison::AmountNotANumber));
                assert!(text(&order).starts_with(r#"{"order_id":175,"amount":"N/A","customer_id":"C-"#), "{}", text(&order));
            }
        }
        assert_eq!(generate(200, 0.0, 0.0)[174].kind, Kind::Order);
    }

    #[test]
    fn valid_orders_have_ascending_ids_and_their_customer_as_key() {
        let orders = generate(10_000, 0.1, 0.1);
        let valid: Vec<_> = orders.iter().filter(|order| order.kind == Kind::Order).collect();
        assert!(valid.windows(2).all(|pair| id(pair[0]) < id(pair[1])));
        for (index, order) in orders.iter().enumerate().filter(|(_, order)| order.kind == Kind::Order) {
            assert_eq!(id(order), index as u64 + 1);
            let customer = std::str::from_utf8(&order.key).unwrap();
            assert!(text(order).contains(&format!(r#""customer_id":"{customer}""#)));
        }
        let customers: std::collections::BTreeSet<_> = valid.iter().map(|order| &order.key).collect();
        assert_eq!(customers.len(), 100);
    }

    #[test]
    fn a_duplicate_repeats_a_recent_valid_order() {
        let orders = generate(10_000, 0.3, 0.3);
        for (index, duplicate) in orders.iter().enumerate().filter(|(_, order)| order.kind == Kind::Duplicate) {
            let recent = orders[..index].iter().rev().filter(|order| order.kind == Kind::Order).take(RECENT_ORDERS_MAX);
            let mut same = recent.filter(|order| (&order.key, &order.value) == (&duplicate.key, &duplicate.value));
            assert!(same.next().is_some(), "{}", text(duplicate));
        }
    }

    #[test]
    fn every_kind_of_poison_is_what_it_says() {
        let orders = generate(5_000, 0.5, 0.0);
        for poison in POISONS {
            assert!(count_of(&orders, |kind| kind == Kind::Poison(poison)) > 300, "{poison:?}");
        }
        for order in &orders {
            let value = text(order);
            let (complete, customer) = (value.starts_with('{') && value.ends_with("]}"), value.contains(r#""customer_id":"C-"#));
            match order.kind {
                Kind::Poison(Poison::AmountNotANumber) => assert!(complete && customer && value.contains(r#""amount":"N/A","#)),
                Kind::Poison(Poison::NotJson) => assert!(value.starts_with('{') && !complete),
                Kind::Poison(Poison::MissingField) => assert!(complete && !customer),
                Kind::Poison(Poison::WrongType) => assert!(complete && customer && value.starts_with("{\"order_id\":\"")),
                Kind::Poison(Poison::EmptyValue) => assert!(value.is_empty()),
                Kind::Order | Kind::Duplicate => assert!(complete && customer && !value.contains("N/A")),
            }
        }
    }

    #[test]
    fn poison_is_spread_over_the_whole_sequence() {
        let orders = generate(5_000, 0.02, 0.0);
        for (stratum, part) in orders.chunks(50).enumerate() {
            assert_eq!(count_of(part, is_poison), 1, "stratum {stratum}");
        }
    }

    #[test]
    fn records_are_about_200_bytes() {
        let orders = generate(10_000, 0.0, 0.0);
        let bytes: usize = orders.iter().map(|order| order.value.len()).sum();
        assert!((190..=210).contains(&(bytes / orders.len())), "{}", bytes / orders.len());
    }

    #[test]
    fn event_time_goes_on_over_midnight_months_and_leap_days() {
        for (milliseconds, expected) in [
            (0, "2026-01-22T00:00:00.000Z"),
            (123, "2026-01-22T00:00:00.123Z"),
            (DAY_MS - 1, "2026-01-22T23:59:59.999Z"),
            (DAY_MS, "2026-01-23T00:00:00.000Z"),
            (10 * DAY_MS, "2026-02-01T00:00:00.000Z"),
            (38 * DAY_MS, "2026-03-01T00:00:00.000Z"),
            (344 * DAY_MS, "2027-01-01T00:00:00.000Z"),
            (768 * DAY_MS, "2028-02-29T00:00:00.000Z"),
        ] {
            assert_eq!(event_time(milliseconds), expected);
        }
    }

    #[test]
    fn a_longer_sequence_without_poison_begins_with_the_shorter_one() {
        assert_eq!(generate(1_000, 0.0, 0.0), generate(5_000, 0.0, 0.0)[..1_000]);
    }

    #[test]
    #[should_panic(expected = "a share lies within")]
    fn a_share_beyond_one_is_refused() {
        let _ = OrderGenerator::new(options(1, 1.5, 0.0));
    }

    // The first numbers of the published algorithm for seed 1234567.
    #[test]
    fn split_mix_64_is_the_published_one() {
        let mut random = SplitMix64::new(1_234_567);
        let numbers: Vec<u64> = (0..5).map(|_| random.next()).collect();
        let published =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423, 4_593_380_528_125_082_431, 16_408_922_859_458_223_821];
        assert_eq!(numbers, published);
    }

    // Goal: the bytes never change. Method: FNV-1a over keys, values and kinds of a sequence with everything in it.
    #[test]
    fn the_sequence_is_the_one_it_has_always_been() {
        let mut hash = 0xCBF2_9CE4_8422_2325_u64;
        for order in generate(5_000, 0.02, 0.05) {
            let kind = format!("{:?}\n", order.kind);
            for byte in order.key.iter().chain(&order.value).chain(kind.as_bytes()) {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
            }
        }
        assert_eq!(hash, 0xB055_ADB9_563F_A1A3, "{hash:#018X}");
        let first = concat!(
            r#"{"order_id":1,"customer_id":"C-00072","amount":"324.86","currency":"USD","event_time":"2026-01-22T00:00:00.000Z","#,
            r#""status":"packed","channel":"app","items":[{"sku":"SKU-9156","qty":5}]}"#
        );
        assert_eq!(text(&generate(1, 0.0, 0.0)[0]), first);
    }
}
