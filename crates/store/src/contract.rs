//! The contract of [`Store`] as tests: one function per rule.
//!
//! An implementation gives a [`Harness`] and runs all of them by [`store_contract!`](crate::store_contract).

mod blobs;
mod callers;
mod chores;
mod commands;
pub(crate) mod fixture;
mod forks;
mod imports;
mod keys;
mod messages;
mod queue;
mod reads;
mod recognition;
mod records;
mod recovery;
mod retention;
mod sessions;
mod sharing;
mod truncation;
mod usage;
mod versus_model;

use std::sync::Arc;

use futures_util::future::BoxFuture;

pub use self::{
    blobs::*, callers::*, chores::*, commands::*, forks::*, imports::*, keys::*, messages::*, queue::*, reads::*,
    recognition::*, records::*, recovery::*, retention::*, sessions::*, sharing::*, truncation::*, usage::*,
    versus_model::*,
};
use crate::Store;

/// A place where a store can be opened again and again.
pub trait Harness: Send + Sync {
    /// Opens the store: an empty one the first time, what was committed to it afterwards. All handles of the former
    /// opening have been dropped.
    fn open(&self) -> BoxFuture<'_, Arc<dyn Store>>;
}

/// Makes a test of every rule. The argument is an expression that gives a [`Harness`](crate::contract::Harness) of its
/// own each time; the crate that calls it depends on `tokio` with `macros` and `rt-multi-thread`.
#[macro_export]
macro_rules! store_contract {
    ($harness:expr) => {
        $crate::store_contract! { @rules $harness;
            commands_see_those_before_them
            refusals_do_not_hinder_others
            an_empty_batch_is_fine
            creating_again_is_recognised
            beginning_again_is_recognised
            appending_again_is_recognised
            resting_again_is_recognised
            resuming_again_is_recognised
            deleting_again_is_recognised
            a_whole_batch_again_has_no_second_effect
            two_who_resume_at_once_are_told_apart
            a_session_is_begun_once
            a_turn_belongs_to_one_session
            stale_versions_are_refused
            one_turn_at_a_time
            appends_must_follow_the_log
            appends_need_the_epoch
            nothing_is_appended_to_a_resting_turn
            a_new_turn_takes_the_place_of_a_waiting_one
            a_waiting_turn_goes_on
            a_rest_adds_to_the_messages_of_its_turn
            a_rest_keeps_what_is_there
            usage_is_counted_once
            settings_change_with_commands
            queued_turns_run_in_order
            a_queued_turn_has_not_begun
            nothing_passes_the_queue
            a_turn_is_queued_in_a_session
            a_queue_does_not_depend_on_the_version
            queueing_again_is_recognised
            a_resting_turn_is_ended
            ending_again_is_recognised
            a_turn_that_never_ran_is_not_the_last
            due_turns_come_in_the_order_of_their_times
            stalled_sessions_are_found
            queued_turns_of_a_tenant_are_counted
            idle_sessions_are_found
            old_records_are_found
            names_of_deleted_sessions_are_forgotten
            commands_bring_records_along
            refused_commands_write_nothing
            recognised_commands_write_once
            records_are_replaced_in_place
            changes_may_expect_a_revision
            records_are_listed_in_pages
            record_positions_are_not_given_twice
            records_belong_to_a_tenant
            sessions_have_titles
            records_have_content_in_parts
            large_content_is_kept
            records_go_with_their_session
            a_shorter_log_is_read_from_every_seq
            only_the_log_of_an_ended_turn_is_replaced
            readers_find_one_log_or_the_other
            old_logs_are_found
            a_repeated_key_is_refused
            every_command_may_have_a_key
            keys_count_for_a_day
            keys_survive_a_restart
            resubmission_comes_before_repetition
            a_key_counts_within_its_batch
            refused_commands_keep_no_key
            keys_belong_to_a_tenant
            keys_outlive_their_session
            reads_go_on_from_every_seq
            reads_are_bounded
            large_logs_are_read_in_pages
            unknown_events_survive
            reads_are_gap_free_while_the_turn_comes_to_rest
            heads_are_those_of_the_last_commit
            turns_are_read_in_pages
            what_does_not_exist_is_not_found
            tenants_do_not_see_each_other
            what_was_deleted_is_gone
            a_running_turn_can_be_deleted
            pages_hold_under_inserts_and_deletes
            positions_are_not_given_twice
            a_fork_has_the_turns_of_another
            a_fork_goes_its_own_way
            forks_can_be_forked
            a_fork_may_have_all_turns_or_none
            only_ended_turns_are_shared
            forks_are_refused
            forking_again_is_recognised
            shared_turns_do_not_go_on
            a_batch_may_fork_what_it_made
            a_session_begins_with_turns
            a_fork_brings_turns_along
            turns_that_make_no_sense_are_not_brought
            importing_again_is_recognised
            messages_are_counted
            the_last_turns_are_taken_away
            a_turn_takes_the_place_of_the_last
            a_session_may_keep_all_turns_or_none
            truncating_again_is_recognised
            a_truncation_that_came_too_late_is_refused
            a_busy_session_is_not_truncated
            records_stay_when_turns_are_taken_away
            a_truncated_session_is_idle_since_then
            a_shared_turn_outlives_its_session
            truncation_takes_from_one_session_alone
            sessions_let_go_in_any_order
            the_log_of_a_shared_turn_is_shortened_once
            readers_of_a_fork_notice_nothing
            commits_survive_a_restart
            running_turns_survive_a_restart
            claims_fence_the_former_owner
            claims_are_limited_and_oldest_first
            resting_turns_are_not_claimed
            unfinished_turns_are_read_together
            usage_is_summed_up
            usage_is_read_in_pages
            recognised_commands_count_once
            refused_commands_count_nothing
            sums_of_usage_stop
            usage_outlives_its_session
            turns_know_who_submitted_them
            records_of_all_tenants_are_listed
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn random_commands_agree_with_the_model() {
            $crate::contract::random_commands_agree_with_the_model(|| $harness).await;
        }
    };
    (@rules $harness:expr; $($rule:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $rule() {
                $crate::contract::$rule(&$harness).await;
            }
        )*
    };
}
