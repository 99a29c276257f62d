// A client of `simile serve` in plain JavaScript, for a browser or Node 22 (Node 20: --experimental-websocket).
//
//   simile serve policy.safetensors
//   node examples/serve.mjs ws://127.0.0.1:8770/streams/demo 100
//
// In a browser, import { Stream } from this file, and start the server with --allow-origin https://your.page.

/** One stream of a server: a context out, an action back. */
export class Stream {
  /**
   * @param {string} url ws://HOST:PORT/streams/NAME
   * @param {{token?: string, timeout?: number, onEvent?: (event: object) => void}} options
   *   token: the server's, where it has one (a browser cannot send headers, so it goes into the address);
   *   timeout: milliseconds to wait for an answer; onEvent: is told of drift, reloads and so on.
   */
  constructor(url, { token, timeout = 5000, onEvent = () => {} } = {}) {
    this.url = token === undefined ? url : `${url}?token=${encodeURIComponent(token)}`;
    this.timeout = timeout;
    this.onEvent = onEvent;
    this.lost = 0; // frames that the server dropped or refused to take twice, and answers that it could not send
    this.n = -1;
    this.action = null; // the last one
    this.frame = null; // the number of the frame that it is for
    this.waiting = new Map(); // from what is waited for to who waits
  }

  /** Connect and begin the stream; with `resume`, go on with it if the server still knows it. */
  async open({ start, deadline = 0, resume = false, band } = {}) {
    await this.#connect();
    const said = await this.#ask("opened", { open: { deadline, resume, ...(start && { start }), ...(band && { band }) } });
    this.n = Math.max(this.n, said.opened.n ?? said.opened.frames - 1);
    this.deadline = deadline;
    this.level = band;
    return said.opened;
  }

  /**
   * Send a context, in order or by name, null for what is missing; resolves to the action for frame `frame`, counted
   * from 0: another than this one where the policy has a lead. While it waits, resolves to undefined.
   */
  step(x) {
    return this.#frame({ x });
  }

  /** Let an operator act in this frame; the policy goes on from there. */
  override(action, x = null) {
    return this.#frame({ override: action, x });
  }

  /** End the stream. */
  async close() {
    if (this.socket?.readyState === WebSocket.OPEN) {
      await this.#ask("closed", { close: true }).catch(() => {});
      this.socket.close();
    }
  }

  async #frame(message) {
    if (this.socket?.readyState !== WebSocket.OPEN) {
      // The connection broke: go on with the stream or, where the server has forgotten it, from where the actuator is.
      await this.open({ start: this.action, deadline: this.deadline, resume: true, band: this.level });
    }
    this.n += 1;
    const said = await this.#ask(this.n, { ...message, n: this.n });
    if (said.error) throw Object.assign(new Error(said.error), { action: said.a }); // the action is the server's bridge
    return said.a;
  }

  #connect() {
    return new Promise((resolve, reject) => {
      this.socket = new WebSocket(this.url);
      this.socket.onopen = () => resolve();
      this.socket.onerror = () => reject(new Error(`no connection to ${this.url.split("?")[0]}`));
      this.socket.onclose = ({ code, reason }) => {
        const error = new Error(`the connection was closed with ${code} ${reason}`);
        for (const { fail } of this.waiting.values()) fail(error);
        this.waiting.clear();
      };
      this.socket.onmessage = ({ data }) => this.#hear(JSON.parse(data));
    });
  }

  #ask(key, message) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.waiting.delete(key);
        reject(new Error(`no answer within ${this.timeout} ms`));
      }, this.timeout);
      const done = (settle) => (value) => {
        clearTimeout(timer);
        settle(value);
      };
      this.waiting.set(key, { hear: done(resolve), fail: done(reject) });
      this.socket.send(JSON.stringify(message));
    });
  }

  #hear(said) {
    if (said.event) return this.onEvent(said.event);
    this.lost += said.lost ?? 0;
    if (said.a) [this.action, this.frame] = [said.a, said.for ?? said.n];
    // An error without a number is about the message itself, such as an open that was refused.
    const key = said.opened ? "opened" : said.closed ? "closed" : (said.n ?? "opened");
    const who = this.waiting.get(key);
    this.waiting.delete(key);
    if (key === "opened" && said.error) return who?.fail(new Error(said.error));
    if (who) return who.hear(said);
    if (said.by === "gap" || said.by === "waiting") this.n = Math.max(this.n, said.n); // made at a deadline, without a frame
  }
}

/** Send contexts that wander, at the policy's rate, and print the actions: what a real program has instead is sensors. */
async function main(url, frames) {
  const stream = new Stream(url, { onEvent: (event) => console.error("event", JSON.stringify(event)) });
  const { contexts, actions, rate } = await stream.open();
  console.log(`${contexts.length} contexts to ${actions.join(", ")} at ${rate ?? "?"} Hz`);
  const x = contexts.map(() => 0);
  for (let t = 0; t < frames; t += 1) {
    for (const i of x.keys()) x[i] += Math.sin(0.1 * t + i) * 0.1;
    const action = await stream.step(x);
    if (action) console.log(stream.frame, action.join(" "));
    await new Promise((wake) => setTimeout(wake, 1000 / (rate ?? 60)));
  }
  await stream.close();
  console.log(`done, ${stream.lost} lost`);
}

const isScript = typeof process !== "undefined" && process.argv[1]?.endsWith("serve.mjs");
if (isScript) {
  main(process.argv[2] ?? "ws://127.0.0.1:8770/streams/demo", Number(process.argv[3] ?? 100)).catch((error) => {
    console.error(String(error));
    process.exitCode = 1;
  });
}
