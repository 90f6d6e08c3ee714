//! Nothing that a server has started outlives this program, however it ends.

use serde_json::json;

use super::world::{Traces, World, command, config, is_alive, play, signal, table};
use crate::suite::harness::{Reply, eventually, script};

/// A server with a family whose members ignore everything that can be ignored.
struct Family {
    world: World,
    pids: Vec<u32>,
}

impl Family {
    /// Its command behind these words.
    #[track_caller]
    fn start(wrapper: &[&str], options: &[&str]) -> Self {
        let traces = Traces::new();
        let family = traces.text("family");
        let options = [options, &["--family", &family]].concat();
        let words: Vec<String> = wrapper.iter().map(|word| (*word).to_owned()).chain(command(&options)).collect();
        let text = config("shutdown_grace = '100ms'", &table("box", &words, ""), "");
        let world = World::start(traces, &text);
        world.ready("box");
        let pids: Vec<u32> = world.traces.lines("family")[0].split(' ').map(|pid| pid.parse().unwrap()).collect();
        assert_eq!(pids.len(), 5);
        assert!(pids.iter().all(|pid| is_alive(*pid)), "{pids:?}");
        Self { world, pids }
    }

    /// With a call in flight.
    #[track_caller]
    fn busy(self, name: &str) -> Self {
        let never = json!({ "until": self.world.traces.text("never") });
        script(name, [Reply::calls(&[("box__wait", never)])]);
        play(&self.world.client(), name).open().until("tool_started");
        self
    }

    #[track_caller]
    fn is_gone(&self, after: &str) {
        eventually(&format!("everybody is gone after {after}"), || {
            (!self.pids.iter().any(|pid| is_alive(*pid))).then_some(())
        });
    }
}

const STUBBORN: &[&str] = &["--stubborn"];
/// As `npx` and the like do: a shell that waits for the program.
const SHELL: &[&str] = &["/bin/sh", "-c", "\"$0\" \"$@\"; exit $?"];

#[test]
fn after_the_end_of_this_program() {
    let ends = |name: &'static str, told: &'static str, wrapper: &'static [&str]| {
        std::thread::spawn(move || {
            let mut family = Family::start(wrapper, STUBBORN).busy(name);
            signal(told, family.world.server.pid());
            family.world.server.ended();
            if told == "TERM" {
                // In good order: it waits for them.
                assert!(!family.pids.iter().any(|pid| is_alive(*pid)), "{:?}", family.pids);
            }
            family.is_gone(told);
        })
    };
    let ends = [
        ends("mcp-end-term", "TERM", &[]),
        ends("mcp-end-kill", "KILL", &[]),
        ends("mcp-end-abort", "ABRT", &[]),
        ends("mcp-end-interrupt", "INT", &[]),
        ends("mcp-end-shell-term", "TERM", SHELL),
        ends("mcp-end-shell-kill", "KILL", SHELL),
    ];
    for end in ends {
        end.join().unwrap();
    }
}

/// A second signal ends the program at once; the guard does the rest.
#[test]
fn after_an_impatient_end() {
    let mut family = Family::start(&[], STUBBORN).busy("mcp-end-twice");
    signal("TERM", family.world.server.pid());
    eventually("it stops", || family.world.home.log().contains("stopping").then_some(()));
    signal("TERM", family.world.server.pid());
    family.world.server.ended();
    family.is_gone("two signals");
}

/// What a dead server leaves behind ends before it is started again.
#[test]
fn after_the_end_of_the_server() {
    for wrapper in [&[], SHELL] {
        let family = Family::start(wrapper, &[]);
        family.world.traces.remove("family");
        signal("KILL", family.pids[0]);
        eventually("it is started again", || family.world.traces.path("family").exists().then_some(()));
        assert!(!family.pids.iter().any(|pid| is_alive(*pid)), "{:?}", family.pids);
        family.world.ready("box");
    }
}

/// A stop ends the call and not the server, which others use too.
#[test]
fn after_a_stop() {
    let mut family = Family::start(&[], &[]);
    let never = json!({ "until": family.world.traces.text("never") });
    script("mcp-end-stop", [Reply::calls(&[("box__wait", never)])]);
    let turn = play(&family.world.client(), "mcp-end-stop");
    turn.open().until("tool_started");
    let stopped = turn.client.send("POST", &format!("/api/v1/sessions/{}/stop", turn.session), "");
    assert_eq!(stopped.status, 204);
    assert_eq!(turn.shown()["status"], "cancelled");
    family.world.call("mcp-end-stop-on", &[("box__echo", json!({ "text": "on" }))]);
    assert!(family.pids.iter().all(|pid| is_alive(*pid)), "{:?}", family.pids);
    family.world.server.terminate();
    family.world.server.ended();
    family.is_gone("a stop and then the end");
}
