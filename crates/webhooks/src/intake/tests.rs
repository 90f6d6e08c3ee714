use everturn_core::{Json, SessionConfig, SessionId};
use everturn_store::{Command, NewSession, Put, Record, SimStore};

use super::*;

/// Fewer than there are notices.
const ROOM: usize = 10;

struct World {
    store: Arc<SimStore>,
    refill: Arc<Notify>,
    written: Arc<Notify>,
    stop: CancellationToken,
    lanes: HashMap<&'static str, (mpsc::UnboundedReceiver<Waiting>, Arc<Load>)>,
}

impl World {
    /// With a lane for each of these tenants.
    async fn start(tenants: &[&'static str]) -> Self {
        let store = Arc::new(SimStore::new());
        let kept: Arc<dyn Store> = Arc::clone(&store) as _;
        let (settler, settling) = Settler::new(Arc::clone(&kept));
        tokio::spawn(settling);
        let (refill, written, stop) = (Arc::new(Notify::new()), Arc::new(Notify::new()), CancellationToken::new());
        let (mut lanes, mut entrances) = (HashMap::new(), HashMap::new());
        for tenant in tenants {
            let (sender, receiver) = mpsc::unbounded_channel();
            let (load, events) = (Load::new(ROOM), BTreeSet::from([NoticeKind::Completed]));
            lanes.insert(*tenant, (receiver, Arc::clone(&load)));
            entrances.insert(tenant.parse().unwrap(), Entrance { sender, events, load, left_at: None });
        }
        let intake = Intake {
            store: kept,
            settler,
            metrics: Metrics::default(),
            lanes: entrances,
            written: Arc::clone(&written),
            refill: Arc::clone(&refill),
        };
        tokio::spawn(intake.run(stop.clone()));
        Self { store, refill, written, stop, lanes }
    }

    async fn commit(&self, command: Command) {
        let receipts = self.store.commit(Arc::new(vec![command])).await.unwrap();
        for receipt in receipts {
            receipt.unwrap();
        }
    }

    async fn create(&self, tenant: &str) {
        let (tenant, id) = (tenant.parse().unwrap(), session());
        let (config, at) = (SessionConfig::default(), Timestamp(1));
        let new = NewSession { tenant, id, config, title: None, shares: None, turns: Vec::new(), key: None, at };
        self.commit(Command::CreateSession(Box::new(new))).await;
    }

    async fn put(&self, tenant: &str, writes: Vec<Write>) {
        let tenant = tenant.parse().unwrap();
        let put = Put { tenant, expects: Vec::new(), writes, key: None, at: Timestamp(2) };
        self.commit(Command::Put(Box::new(put))).await;
    }

    async fn notice(&self, tenant: &str, number: usize, kind: &str) {
        let body = format!(r#"{{"kind":"{kind}","at":1}}"#);
        let record = Record {
            kind: RecordKind::Notice,
            id: number.to_string(),
            session: Some(session()),
            turn: Some("t1".parse().unwrap()),
            state: NOTICE_DUE.to_owned(),
            body: Json::parse(&body).unwrap(),
            outcome: None,
        };
        self.put(tenant, vec![Write::Record(record)]).await;
    }

    /// Takes the next of a lane; it is delivered.
    async fn deliver(&mut self, tenant: &'static str) -> usize {
        let (receiver, load) = self.lanes.get_mut(tenant).unwrap();
        let waiting = receiver.recv().await.unwrap();
        assert!(receiver.len() < ROOM, "no more than there is room for");
        load.remove(&self.refill);
        self.put(tenant, vec![Write::Remove { kind: RecordKind::Notice, id: waiting.id.clone() }]).await;
        waiting.id.parse().unwrap()
    }

    async fn due(&self) -> usize {
        self.store.records_of_all(RecordKind::Notice, NOTICE_DUE, None, 1000).await.unwrap().len()
    }
}

fn session() -> SessionId {
    "s1".parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn each_comes_once_and_in_order_however_many_there_are() {
    let mut world = World::start(&["a", "b"]).await;
    for tenant in ["a", "b", "nobody"] {
        world.create(tenant).await;
    }
    for number in 0..60 {
        world.notice("a", number, "turn.completed").await;
        if number % 5 == 0 {
            world.notice("b", number, "turn.completed").await;
            world.notice("nobody", number, "turn.completed").await;
        }
    }
    world.written.notify_one();
    // One that is stuck does not keep the other from its own.
    for number in (0..60).step_by(5) {
        assert_eq!(world.deliver("b").await, number);
    }
    for number in 0..40 {
        assert_eq!(world.deliver("a").await, number);
    }
    // New ones while there are some that had no room.
    for number in 60..100 {
        world.notice("a", number, "turn.completed").await;
        world.written.notify_one();
        tokio::task::yield_now().await;
    }
    world.notice("b", 60, "turn.completed").await;
    world.written.notify_one();
    assert_eq!(world.deliver("b").await, 60);
    for number in 40..100 {
        assert_eq!(world.deliver("a").await, number);
    }
    assert_eq!(world.due().await, 0, "those that nobody wants are gone");
    tokio::time::sleep(INTERVAL * 3).await;
    assert!(world.lanes.values().all(|(receiver, _)| receiver.is_empty()));
    world.stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn what_is_not_wanted_any_more_is_removed() {
    let mut world = World::start(&["a"]).await;
    world.create("a").await;
    world.notice("a", 1, "turn.failed").await;
    world.notice("a", 2, "turn.completed").await;
    world.notice("a", 3, "turn.of_another_version").await;
    world.written.notify_one();
    assert_eq!(world.deliver("a").await, 2);
    assert_eq!(world.deliver("a").await, 3, "the lane complains of what cannot be read");
    assert_eq!(world.due().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_for_a_while_loses_nothing() {
    let mut world = World::start(&["a"]).await;
    world.create("a").await;
    world.create("nobody").await;
    for number in 0..5 {
        world.notice("a", number, "turn.completed").await;
        world.notice("nobody", number, "turn.completed").await;
    }
    world.store.faults().outage();
    world.written.notify_one();
    tokio::time::sleep(Duration::from_secs(300)).await;
    world.store.faults().stop();
    for number in 0..5 {
        assert_eq!(world.deliver("a").await, number);
    }
    while world.due().await > 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_given_up_is_kept_for_a_while() {
    let world = World::start(&[]).await;
    world.create("a").await;
    world.notice("a", 1, "turn.completed").await;
    let close = |state: &str| Write::Close {
        kind: RecordKind::Notice,
        id: "1".to_owned(),
        state: state.to_owned(),
        outcome: None,
    };
    // It was given up at the beginning of time.
    world.put("a", vec![close(GIVEN_UP)]).await;
    tokio::time::sleep(INTERVAL * 2).await;
    let left = world.store.record(&"a".parse().unwrap(), RecordKind::Notice, "1").await.unwrap();
    assert_eq!(left, None);
}
