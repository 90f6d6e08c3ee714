// What an application writes to follow a turn with an EventSource: it shows what comes, and closes when the turn is over.
// Everything else, coming back after a lost connection above all, is the EventSource's own doing.
const OVER = ["complete", "error", "cancelled"];

export function watch(EventSource, url, report, options) {
  const source = new EventSource(url, options);
  source.onopen = () => report({ url, open: true });
  source.onmessage = ({ lastEventId, data }) => {
    report({ url, id: lastEventId, data });
    if (OVER.includes(JSON.parse(data).type)) source.close();
  };
  source.onerror = () => report({ url, error: source.readyState });
}
