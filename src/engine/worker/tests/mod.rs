//! The worker's rules as tables. Goal of each: its name. Method: a script of events with the commands that must follow.

mod broken;
mod script;

use script::table;

/// Two partitions, claimed at 10 and 20: where most tables begin.
const STARTED: &str = "
    0 ready                    =>
    0 assigned 0 1             => resolve 0/1+ 1/2+
    0 resolved 0@10 1@20       => claim 0@10 1@20
    0 claimed                  => assign 0@10 1@20
";

#[track_caller]
fn started(text: &str) {
    table(&format!("{STARTED}{text}"));
}

#[test]
fn offsets_are_read_after_the_producer_is_initialised_and_claimed_before_records() {
    table(
        "
        0 state                    => initialising
        0 assigned 0 1             =>
        0 tick                     =>
        5 ready                    => resolve 0/1+ 1/2+
        6 wants                    => yes
        6 state                    => resolving_offsets
        7 resolved 0@10 1@20?      => claim 0@10 1@20
        7 offsets                  => 0:unknown 1:unknown
        8 claimed                  => assign 0@10 1@20
        8 offsets                  => 0:10..10 1:20..20
        8 state                    => running
        ",
    );
}

#[test]
fn an_empty_assignment_is_accepted_at_once() {
    table(
        "
        0 assigned                 => assign
        0 ready                    =>
        0 state                    => waiting_for_partitions
        ",
    );
}

#[test]
fn batches_close_by_interval_counted_from_close_to_close() {
    started(
        "
        50  handed 0 10..12        =>
        60  due                    => 100
        99  tick                   =>
        100 tick                   => transact #1 Interval 0:10..12
        110 committed #1           => account #1 x2
        110 offsets                => 0:12..12 1:20..20
        110 due                    => never
        150 handed 0 12..13        =>
        150 due                    => 200
        199 tick                   =>
        200 tick                   => transact #2 Interval 0:12..13
        201 committed #2           => account #2 x1
        900 handed 0 13..14        =>
        900 tick                   => transact #3 Interval 0:13..14
        ",
    );
}

#[test]
fn a_batch_closes_by_its_record_or_byte_cap() {
    started(
        "
        1 handed 0 10..20          =>
        1 wants                    => no
        1 tick                     => transact #1 Cap 0:10..20
        2 committed #1             => account #1 x10
        3 handed 1 20..21 b999     =>
        3 tick                     =>
        3 handed 1 21..22 b1       =>
        3 tick                     => transact #2 Cap 1:20..22
        ",
    );
}

// The runtime has the outputs of both partitions in hand when it says what was handed over of the first.
#[test]
fn a_batch_is_not_closed_between_two_partitions_of_one_round() {
    started(
        "
        1   handed 0 10..20        =>
        1   handed 1 20..22        =>
        1   tick                   => transact #1 Cap 0:10..20 1:20..22
        2   committed #1           => account #1 x12
        3   handed 0 20..21        =>
        3   tick                   =>
        200 handed 0 21..22        =>
        200 handed 1 22..23        =>
        200 tick                   => transact #2 Interval 0:20..22 1:22..23
        ",
    );
}

#[test]
fn a_drain_commits_what_is_open_and_gives_everything_back() {
    started(
        "
        1 handed 0 10..12          =>
        1 drain                    => transact #1 Drain 0:10..12
        2 wants                    => no
        2 state                    => draining
        2 drain                    =>
        3 committed #1             => account #1 x2 | release 0@12 1@20 | stop Drained
        3 state                    => stopped
        4 tick                     =>
        ",
    );
}

#[test]
fn a_drain_commits_a_second_batch_behind_the_first() {
    started(
        "
        1   handed 0 10..20        =>
        1   tick                   => transact #1 Cap 0:10..20
        2   handed 1 20..22        =>
        2   drain                  =>
        3   committed #1           => account #1 x10 | transact #2 Drain 1:20..22
        4   committed #2           => account #2 x2 | release 0@20 1@22 | stop Drained
        ",
    );
}

#[test]
fn a_drain_over_its_budget_drops_the_open_batch_and_releases_nothing_in_flight() {
    started(
        "
        1   handed 0 10..20        =>
        1   tick                   => transact #1 Cap 0:10..20
        2   handed 0 20..21        =>
        2   drain                  =>
        2   due                    => 802
        801 tick                   =>
        802 tick                   => discard | seek 0@20 | release 1@20 | stop DrainCutShort
        ",
    );
}

#[test]
fn the_second_batch_waits_for_the_first() {
    started(
        "
        1   handed 0 10..20        =>
        1   tick                   => transact #1 Cap 0:10..20
        2   handed 0 20..25 x4     =>
        500 tick                   =>
        500 due                    => never
        501 committed #1           => account #1 x10 | transact #2 Interval 0:20..25
        502 committed #2           => account #2 x4
        502 offsets                => 0:25..25 1:20..20
        ",
    );
}

#[test]
fn an_abort_drops_both_batches_and_rewinds_to_the_start_of_the_first() {
    started(
        "
        1   handed 0 10..20        =>
        1   tick                   => transact #1 Cap 0:10..20
        2   handed 0 20..22        =>
        2   handed 1 20..21        =>
        3   aborted #1             => discard | seek 0@20 1@20 | seek 0@10
        3   offsets                => 0:10..10 1:20..20
        3   state                  => backing_off
        52  wants                  => no
        53  wants                  => yes
        54  handed 0 10..12        =>
        200 tick                   => transact #3 Interval 0:10..12
        ",
    );
}

#[test]
fn pauses_after_aborts_in_a_row_double_up_to_five_seconds() {
    let mut text = String::new();
    let mut now = 0;
    for (batch, pause) in (1..).zip([50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]) {
        text += &format!("{now} handed 0 10..20 =>\n{now} tick => transact #{batch} Cap 0:10..20\n{now} aborted #{batch} => seek 0@10\n");
        text += &format!("{now} due => {}\n{} wants => no\n", now + pause, now + pause - 1);
        now += pause;
        text += &format!("{now} wants => yes\n");
    }
    text += &format!("{now} handed 0 10..20 =>\n{now} tick => transact #10 Cap 0:10..20\n{now} committed #10 => account #10 x10\n");
    text +=
        &format!("{now} handed 0 20..30 =>\n{now} tick => transact #11 Cap 0:20..30\n{now} aborted #11 => seek 0@20\n{now} due => {}\n", now + 50);
    started(&text);
}

#[test]
fn a_revoke_with_nothing_in_hand_is_agreed_to_at_once() {
    started(
        "
        1 revoked 0                => release 0@10 | give-back 0
        1 offsets                  => 1:20..20
        2 revoked 1                => release 1@20 | give-back 1
        2 state                    => waiting_for_partitions
        ",
    );
}

#[test]
fn a_revoke_first_sends_the_open_batch_that_holds_the_partition() {
    started(
        "
        1 handed 0 10..12          =>
        1 handed 1 20..22          =>
        2 revoked 0                => transact #1 Revoke 0:10..12 1:20..22
        2 wants                    => no
        3 committed #1             => account #1 x4 | release 0@12 | give-back 0
        3 wants                    => yes
        3 offsets                  => 1:22..22
        ",
    );
}

#[test]
fn a_revoke_leaves_an_open_batch_without_the_partition_open() {
    started(
        "
        1   handed 1 20..22        =>
        2   revoked 0              => release 0@10 | give-back 0
        101 tick                   => transact #1 Interval 1:20..22
        ",
    );
}

#[test]
fn a_revoke_waits_for_the_batch_in_flight() {
    started(
        "
        1 handed 0 10..20          =>
        1 tick                     => transact #1 Cap 0:10..20
        2 revoked 0                =>
        2 due                      => 502
        3 committed #1             => account #1 x10 | release 0@20 | give-back 0
        ",
    );
}

#[test]
fn a_revoke_waits_for_both_batches() {
    started(
        "
        1 handed 0 10..20          =>
        1 tick                     => transact #1 Cap 0:10..20
        2 handed 0 20..21          =>
        3 revoked 0 1              =>
        4 committed #1             => account #1 x10 | transact #2 Revoke 0:20..21
        5 committed #2             => account #2 x1 | release 0@21 1@20 | give-back 0 1
        ",
    );
}

#[test]
fn a_revoke_after_an_abort_releases_the_rewound_offset() {
    started(
        "
        1 handed 0 10..20          =>
        1 tick                     => transact #1 Cap 0:10..20
        2 handed 0 20..21          =>
        3 revoked 0                =>
        4 aborted #1               => discard | seek 0@20 | seek 0@10 | release 0@10 | give-back 0
        ",
    );
}

#[test]
fn a_revoke_over_its_budget_gives_back_without_releasing_what_is_in_flight() {
    started(
        "
        1   handed 0 10..20        =>
        1   tick                   => transact #1 Cap 0:10..20
        2   handed 0 20..21        =>
        2   handed 1 20..22        =>
        3   revoked 0              =>
        502 tick                   =>
        503 tick                   => discard | seek 1@20 | give-back 0
        600 committed #1           => account #1 x10
        600 offsets                => 1:20..20
        ",
    );
}

#[test]
fn a_loss_discards_the_open_batch_and_sends_and_releases_nothing() {
    started(
        "
        1   handed 0 10..20        =>
        1   tick                   => transact #1 Cap 0:10..20
        2   handed 0 20..21        =>
        2   handed 1 20..22        =>
        3   lost 0                 => discard | seek 1@20 | give-back 0
        4   aborted #1             =>
        300 offsets                => 1:20..20
        300 tick                   =>
        ",
    );
}

#[test]
fn a_loss_in_the_middle_of_a_revoke_ends_it() {
    started(
        "
        1 handed 0 10..20          =>
        1 tick                     => transact #1 Cap 0:10..20
        2 revoked 0                =>
        3 lost 0                   => give-back 0
        4 committed #1             => account #1 x10
        4 wants                    => yes
        ",
    );
}

#[test]
fn answers_to_an_older_assignment_are_ignored() {
    table(
        "
        0 ready                    =>
        0 assigned 0               => resolve 0/1+
        1 lost 0                   => give-back 0 | assign
        2 assigned 0               => resolve 0/2+
        3 resolved 0/1@10          =>
        4 resolved 0/2@15          => claim 0@15
        5 resolved 0/2@99          =>
        5 claimed                  => assign 0@15
        ",
    );
}

#[test]
fn pending_and_unanswered_offsets_are_asked_for_again_after_a_pause() {
    table(
        "
        0  ready                        =>
        0  assigned 0 1 2               => resolve 0/1+ 1/2+ 2/3+
        5  resolved 0=pending 1@20 2=unanswered =>
        5  due                          => 25
        24 tick                         =>
        25 tick                         => resolve 0/1+ 2/3+
        26 resolved 0@10                =>
        27 resolved 2@30                => claim 0@10 1@20 2@30
        ",
    );
}

#[test]
fn a_missing_offset_stops_the_worker() {
    table(
        "
        0 ready                    =>
        0 assigned 0 1             => resolve 0/1+ 1/2+
        1 resolved 0@10 1=missing  => stop OffsetsMissing
        ",
    );
}

// While an assignment is not answered the client reports nothing else, not even that the membership is gone.
#[test]
fn a_refused_claim_accepts_the_assignment_and_claims_again_before_any_record() {
    table(
        "
        0  ready                   =>
        0  assigned 0 1            => resolve 0/1+ 1/2+
        1  resolved 0@10 1@20      => claim 0@10 1@20
        2  refused                 => assign 0@10 1@20
        2  offsets                 => 0:unknown 1:unknown
        22 tick                    => resolve 0/1 1/2
        23 resolved 0@10 1@21?     => claim 0@10 1@21
        24 refused                 =>
        44 tick                    => resolve 0/1 1/2
        45 resolved 0@10 1=pending => claim 0@10
        46 claimed                 => seek 0@10
        65 tick                    => resolve 1/2
        66 resolved 1@22           => claim 1@22
        67 claimed                 => seek 1@22
        67 offsets                 => 0:10..10 1:22..22
        ",
    );
}

#[test]
fn a_loss_is_heard_after_a_refused_claim() {
    table(
        "
        0  ready                   =>
        0  assigned 0              => resolve 0/1+
        1  resolved 0@10           => claim 0@10
        2  refused                 => assign 0@10
        3  lost 0                  => give-back 0
        4  assigned 0              => resolve 0/2+
        5  resolved 0@10           => claim 0@10
        6  claimed                 => assign 0@10
        ",
    );
}

#[test]
fn an_assignment_waits_for_the_offsets_of_all_its_partitions_and_leaves_others_alone() {
    started(
        "
        1 assigned 2 3             => resolve 2/3+ 3/4+
        2 handed 0 10..12          =>
        3 resolved 2@30            =>
        4 resolved 3@40            => claim 2@30 3@40
        5 claimed                  => assign 2@30 3@40
        5 offsets                  => 0:10..12 1:20..20 2:30..30 3:40..40
        ",
    );
}

#[test]
fn after_an_unknown_outcome_nothing_is_sent_until_the_owner_record_decides_it_was_committed() {
    started(
        "
        1   handed 0 10..20        =>
        1   tick                   => transact #1 Cap 0:10..20
        2   handed 1 20..21        =>
        3   unknown #1             => discard | seek 1@20 | initialise
        3   state                  => in_doubt
        400 wants                  => no
        400 due                    => never
        401 ready                  => resolve 0/1 1/2
        402 wants                  => no
        403 resolved 0@20!1 1@20!  => account #1 x10 | seek 0@20 1@20
        403 wants                  => yes
        404 handed 0 20..30        =>
        404 tick                   => transact #3 Cap 0:20..30
        ",
    );
}

#[test]
fn after_an_unknown_outcome_an_older_record_of_ours_means_not_committed() {
    started(
        "
        1 handed 0 10..20          =>
        1 handed 1 20..21          =>
        1 tick                     => transact #1 Cap 0:10..20 1:20..21
        3 unknown #1               => initialise
        4 ready                    => resolve 0/1 1/2
        5 resolved 0@10! 1@20!     => seek 0@10 1@20
        5 offsets                  => 0:10..10 1:20..20
        ",
    );
}

#[test]
fn owner_records_that_disagree_stop_the_worker() {
    for answer in ["0@20!1 1@20!", "0@15!1 1@21!1", "0@11! 1@20!"] {
        started(&format!(
            "
            1 handed 0 10..20      =>
            1 handed 1 20..21      =>
            1 tick                 => transact #1 Cap 0:10..20 1:20..21
            3 unknown #1           => initialise
            4 ready                => resolve 0/1 1/2
            5 resolved {answer}    => seek {} | release {} | stop Disagreement
            ",
            positions(answer),
            positions(answer)
        ));
    }
}

fn positions(answer: &str) -> String {
    answer.split(' ').map(|answer| answer.split('!').next().unwrap()).collect::<Vec<_>>().join(" ")
}

#[test]
fn one_look_at_all_witnesses_decides() {
    started(
        "
        1  handed 0 10..20           =>
        1  handed 1 20..21           =>
        1  tick                      => transact #1 Cap 0:10..20 1:20..21
        3  unknown #1                => initialise
        4  ready                     => resolve 0/1 1/2
        5  resolved 0@20!1 1=pending =>
        25 tick                      => resolve 0/1 1/2
        26 resolved 0@20!1 1@21!1    => account #1 x11 | seek 0@20 1@21
        ",
    );
}

#[test]
fn a_batch_in_doubt_without_witnesses_is_written_off() {
    started(
        "
        1 handed 0 10..20          =>
        1 tick                     => transact #1 Cap 0:10..20
        3 unknown #1               => initialise
        4 lost 0                   => give-back 0 | write-off #1
        5 ready                    => resolve 1/2
        6 resolved 1@20!           => seek 1@20
        6 state                    => backing_off
        53 wants                   => yes
        ",
    );
}

// A partition that was away while its batch was in flight tells what its other owner did, not what became of the batch.
#[test]
fn a_partition_that_was_away_is_no_witness() {
    started(
        "
        1   handed 0 10..20        =>
        1   tick                   => transact #1 Cap 0:10..20
        2   revoked 0              =>
        502 tick                   => give-back 0
        503 assigned 0             => resolve 0/3+
        504 unknown #1             => write-off #1 | initialise
        505 ready                  => resolve 0/3+ 1/2
        506 resolved 0@15? 1@20!   => seek 1@20 | claim 0@15
        507 claimed                => assign 0@15
        ",
    );
}

// Asking again would fence the new owner again and again; stopping would let a zombie's death look like a broken log.
#[test]
fn a_partition_that_another_id_has_claimed_meanwhile_waits_for_its_loss() {
    started(
        "
        1   handed 0 10..20        =>
        1   tick                   => transact #1 Cap 0:10..20
        3   fenced #1              => initialise
        4   ready                  => resolve 0/1 1/2
        5   resolved 0@35? 1@20!   => write-off #1 | seek 1@20
        5   offsets                => 0:unknown 1:20..20
        900 tick                   =>
        901 lost 0                 => give-back 0
        ",
    );
}

// A zombie that wakes up finds another id in its records: that is the new owner, and fencing it would cost it a batch.
#[test]
fn only_a_partition_just_gained_is_taken_over() {
    table(
        "
        0   ready                  =>
        0   assigned 0 1           => resolve 0/1+ 1/2+
        1   resolved 0=unanswered 1=pending =>
        21  tick                   => resolve 0/1+ 1/2+
        22  resolved 0@10? 1=pending =>
        42  tick                   => resolve 1/2+
        43  resolved 1@20          => claim 0@10 1@20
        44  claimed                => assign 0@10 1@20
        50  handed 0 10..20        =>
        50  tick                   => transact #1 Cap 0:10..20
        60  fenced #1              => initialise
        61  ready                  => resolve 0/1 1/2
        62  resolved 0=unanswered 1@20! => seek 1@20
        82  tick                   => resolve 0/1
        83  resolved 0@35?         => write-off #1
        ",
    );
}

#[test]
fn the_other_witnesses_decide_without_the_one_that_was_taken() {
    started(
        "
        1   handed 0 10..20        =>
        1   handed 1 20..21        =>
        1   tick                   => transact #1 Cap 0:10..20 1:20..21
        3   fenced #1              => initialise
        4   ready                  => resolve 0/1 1/2
        5   resolved 0@35? 1@21!1  => account #1 x11 | seek 1@21
        6   revoked 0              => give-back 0
        ",
    );
}

#[test]
fn a_partition_gained_while_in_doubt_is_claimed_by_itself() {
    started(
        "
        1   handed 0 10..20        =>
        1   tick                   => transact #1 Cap 0:10..20
        3   unknown #1             => initialise
        4   assigned 2             =>
        5   ready                  => resolve 0/1 1/2 2/3+
        6   resolved 0@10! 1@20! 2@7? => seek 0@10 1@20 | claim 2@7
        7   claimed                => assign 2@7
        ",
    );
}

#[test]
fn the_fourth_fence_within_a_minute_stops_the_worker() {
    let round = |now: u64, batch: u64| {
        format!(
            "
            {now} handed 0 10..20  =>
            {now} tick             => transact #{batch} Cap 0:10..20
            {now} fenced #{batch}  => initialise
            {now} ready            => resolve 0/1 1/2
            {now} resolved 0@10! 1@20! => seek 0@10 1@20
            "
        )
    };
    let last = |now: u64, then: &str| format!("{now} handed 0 10..20 =>\n{now} tick => transact #4 Cap 0:10..20\n{now} fenced #4 => {then}\n");
    let three = [round(0, 1), round(10_000, 2), round(20_000, 3)].concat();
    started(&(three.clone() + &last(60_000, "write-off #4 | stop FencedTooOften")));
    started(&(three + &last(60_001, "initialise")));
}

#[test]
fn a_bad_record_commits_what_is_before_it() {
    started(
        "
        1 handed 0 10..12          =>
        1 finish                   => transact #1 Drain 0:10..12
        2 committed #1             => account #1 x2 | release 0@12 1@20 | stop Fatal
        ",
    );
}

#[test]
fn a_halt_drops_what_is_open_and_waits_for_what_is_in_flight() {
    started(
        "
        1 handed 0 10..20          =>
        1 tick                     => transact #1 Cap 0:10..20
        2 handed 0 20..21          =>
        3 halt                     => discard | seek 0@20
        4 committed #1             => account #1 x10 | release 0@20 1@20 | stop Fatal
        ",
    );
}

#[test]
fn a_refused_output_stops_with_nothing_committed() {
    started(
        "
        1 handed 0 10..20          =>
        1 tick                     => transact #1 Cap 0:10..20
        2 handed 0 20..21          =>
        3 stopped #1               => discard | seek 0@20 | seek 0@10 | release 0@10 1@20 | stop Fatal
        ",
    );
}

#[test]
fn a_drain_with_an_unknown_outcome_leaves_it_to_the_successor() {
    started(
        "
        1 handed 0 10..20          =>
        1 tick                     => transact #1 Cap 0:10..20
        2 drain                    =>
        3 unknown #1               => write-off #1 | stop Drained
        ",
    );
}

#[test]
fn real_trouble_is_the_reason_given_by_a_drain() {
    started(
        "
        1 handed 0 10..20          =>
        1 tick                     => transact #1 Cap 0:10..20
        2 drain                    =>
        3 finish                   =>
        4 drain                    =>
        5 committed #1             => account #1 x10 | release 0@20 1@20 | stop Fatal
        ",
    );
}

#[test]
fn a_batch_that_only_steps_over_control_records_closes_at_the_quiet_interval() {
    started(
        "
        50   handed 0 ..12         =>
        50   due                   => 1050
        1049 tick                  =>
        1050 tick                  => transact #1 Interval 0:10..12
        1060 committed #1          => account #1 x0
        2000 handed 0 ..13         =>
        2100 handed 0 13..14       =>
        2100 due                   => 1150
        2100 tick                  => transact #2 Interval 0:12..14
        ",
    );
}

#[test]
fn gaps_between_records_join_on() {
    started(
        "
        1   handed 0 13..14        =>
        2   handed 0 17..19        =>
        101 tick                   => transact #1 Interval 0:10..19
        ",
    );
}

#[test]
fn due_is_the_earliest_of_everything_that_waits() {
    started(
        "
        1   due                    => never
        1   handed 0 10..20        =>
        1   tick                   => transact #1 Cap 0:10..20
        2   aborted #1             => seek 0@10
        2   due                    => 52
        60  due                    => never
        60  handed 0 10..11        =>
        60  due                    => 101
        70  drain                  => transact #2 Drain 0:10..11
        70  due                    => 870
        ",
    );
}

#[test]
fn a_refused_batch_is_read_again_in_parts_without_a_pause_until_the_culprit_is_alone() {
    started(
        "
        1 handed 0 10..18          =>
        1 handed 1 20..22          =>
        1 tick                     => transact #1 Cap 0:10..18 1:20..22
        2 handed 1 22..23          =>
        3 poisoned #1 0:10..18     => discard | seek 1@22 | seek 0@10 1@20
        3 state                    => hunting_refused_output
        3 wants                    => yes
        4 handed 1 20..21          =>
        4 wants                    => yes
        4 handed 0 10..11          =>
        4 wants                    => no
        4 tick                     => transact #3 Cap 0:10..11 1:20..21
        5 wants                    => no
        6 committed #3             => account #3 x2
        6 wants                    => yes
        7 handed 0 11..12          =>
        7 tick                     => transact #4 Cap 0:11..12
        8 poisoned #4 0:11..12     => seek 0@11 | condemned 0@11
        8 state                    => hunting_refused_output
        9 handed 0 11..12          =>
        9 wants                    => no
        9 tick                     => transact #5 Cap 0:11..12
        10 committed #5            => account #5 x1
        11 handed 0 12..13         =>
        11 tick                    => transact #6 Cap 0:12..13
        12 committed #6            => account #6 x1
        13 handed 0 13..15         =>
        13 tick                    => transact #7 Cap 0:13..15
        14 committed #7            => account #7 x2
        15 handed 0 15..18         =>
        15 state                   => hunting_refused_output
        15 tick                    =>
        113 tick                   => transact #8 Interval 0:15..18
        114 committed #8           => account #8 x3
        114 state                  => running
        115 handed 0 18..19        =>
        213 tick                   => transact #9 Interval 0:18..19
        214 wants                  => yes
        ",
    );
}

#[test]
fn a_hunt_ends_when_its_partition_goes_away() {
    started(
        "
        1 handed 0 10..20          =>
        1 tick                     => transact #1 Cap 0:10..20
        2 poisoned #1 0:10..20     => seek 0@10
        2 state                    => hunting_refused_output
        3 lost 0                   => give-back 0
        3 state                    => running
        4 handed 1 20..29          =>
        4 wants                    => yes
        ",
    );
}

#[test]
fn a_refused_batch_whose_partition_is_gone_accuses_nobody() {
    started(
        "
        1 handed 0 10..19          =>
        1 handed 1 20..21          =>
        1 tick                     => transact #1 Cap 0:10..19 1:20..21
        2 lost 0                   => give-back 0
        3 poisoned #1 0:18..19 1:20..21 => seek 1@20
        3 state                    => running
        ",
    );
}

#[test]
fn a_drain_ends_a_hunt_where_it_stands() {
    started(
        "
        1 handed 0 10..20          =>
        1 tick                     => transact #1 Cap 0:10..20
        2 drain                    =>
        3 poisoned #1 0:10..20     => seek 0@10 | release 0@10 1@20 | stop Drained
        ",
    );
}
