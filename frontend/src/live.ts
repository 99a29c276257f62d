// A stream that is being served: its curves as they come, who acts, what happens; and a lever to take it over.
import { format, h } from "./dom";
import { Corrections } from "./live/corrections";
import { Curve } from "./live/curve";
import { Hand, keyMove, pushed } from "./live/hand";
import { Improve } from "./live/improve";
import { type Event, getServices, getStreams, Seat, type StreamFacts } from "./live/seat";
import { type Seated, Session, USUAL_RATE } from "./live/session";
import { Who } from "./live/who";
import { Refusal } from "./studio/api";
import { field, select, textInput } from "./studio/forms";
import { setText } from "./studio/keyed";
import { installTheme } from "./theme";

const at = (id: string): HTMLElement => document.getElementById(id)!;
const USUAL = "ws://127.0.0.1:8770";
const AGAIN = 2000; // milliseconds between two looks at the streams, and until a lost one is tried again
const ACT = 40; // milliseconds between two words to the service while it is in hand: it lets go after 500
const FASTEST = 0.5; // of what can be seen, which a gamepad moves in a second at most
const MOST_EVENTS = 200;
const HANDED_BACK = "the operator has handed back";

const service = textInput(USUAL);
service.value = USUAL;
service.setAttribute("list", "services");
const token = h("input", { type: "password", autocomplete: "off", placeholder: "none on this machine" });
const known = h("datalist", { id: "services" });
const connect = h("button", { type: "submit", class: "main" }, "Look for streams");
const form = h(
  "form",
  { class: "row", id: "service" },
  field("Service", service),
  field("Token", token),
  connect,
  known,
);
const trouble = h("p", { class: "trouble", role: "alert" });
const streams = h("div", { class: "streams", role: "group", "aria-label": "Streams" });
at("where").append(form, trouble, streams);

const title = h("h2", {});
const state = h("p", { class: "state", role: "status" });
const facts = h("p", { class: "facts" });
const back = h("button", { type: "button", class: "main", id: "back", disabled: "" }, "Hand back (space)");
const span = select(
  [10, 30, 60, 300].map((seconds) => [String(seconds), seconds < 60 ? `${seconds} s` : `${seconds / 60} min`]),
);
span.value = "30";
const curves = h("div", {});
const who = new Who();
const hint =
  "Drag a lever on the right to take over; arrow keys and a gamepad do, too. Space, or the gamepad’s first button, hands back.";
at("stream").append(
  h("div", { class: "head" }, h("div", {}, title, facts), state, h("label", {}, "Show the last", span), back),
  curves,
  who.root,
  h("p", { class: "hint" }, hint),
);
const corrections = new Corrections(at("corrections"));
new Improve(at("improve"), () => session);
const events = h("ul", { class: "events" });
const quiet = h("p", { class: "empty" }, "Nothing yet.");
at("events").append(quiet, events);

let seat: Seat | null = null;
let session: Session | null = null;
let hand: Hand | null = null;
let drawn: Curve[] = [];
let chosen = "";
let listing = 0;
let retry = 0;
let acted = 0; // when the hand last acted, in the page's time (ms)
let fresh = false; // whether there is something new to draw
let pads = 0;
let polled = 0;

// ------------------------------------------------------------------------------------------------ choosing a stream

const place = () => ({ service: service.value.trim(), token: token.value });

async function list(): Promise<void> {
  clearTimeout(listing);
  try {
    const found = await getStreams(place());
    setText(trouble, found.length ? "" : "This service has no streams now; they appear here when clients send frames.");
    trouble.classList.toggle("calm", found.length === 0);
    offer(found);
    // The list is of use until one is chosen, and then for choosing another.
    listing = window.setTimeout(() => void list(), AGAIN);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    trouble.classList.remove("calm");
    setText(trouble, error.message);
    offer([]);
  }
}

function offer(found: StreamFacts[]): void {
  const names = found.map(({ name }) => name).sort();
  const present = [...streams.children].map((button) => (button as HTMLElement).dataset.name);
  if (JSON.stringify(names) !== JSON.stringify(present)) {
    streams.replaceChildren(
      ...names.map((name) => {
        const button = h("button", { type: "button", "data-name": name }, name);
        button.onclick = () => choose(name);
        return button;
      }),
    );
  }
  for (const button of streams.children) {
    button.setAttribute("aria-pressed", String((button as HTMLElement).dataset.name === chosen));
  }
}

function choose(name: string): void {
  chosen = name;
  session = null;
  sit();
  for (const button of streams.children) {
    button.setAttribute("aria-pressed", String((button as HTMLElement).dataset.name === name));
  }
}

function sit(): void {
  clearTimeout(retry);
  seat?.leave();
  hand?.release();
  seat = new Seat(place(), chosen, {
    seated: begin,
    frames: (frames, skipped) => {
      session?.add(frames, skipped);
      fresh = true;
    },
    event: note,
    error: (sentence) => {
      hand?.release();
      note({ kind: "refused", on: true, reason: sentence });
    },
    ended: (sentence) => {
      hand?.release();
      note({ kind: "disconnected", on: true, reason: sentence });
      retry = window.setTimeout(sit, AGAIN);
    },
  });
}

/** The service tells what there is to see; after a connection was lost, all that was seen stays. */
function begin(seated: Seated): void {
  const same = session !== null && JSON.stringify(session.seated.actions) === JSON.stringify(seated.actions);
  hand = new Hand(seated.low, seated.high);
  if (same) return;
  session = new Session(seated);
  const mine = session;
  for (const curve of drawn) curve.destroy();
  drawn = seated.actions.map((_, i) => new Curve(mine, i));
  for (const { index, lever } of drawn) {
    lever.onset = (value) => move((now) => hand!.set(index, value, now));
    lever.onnudge = (by) => move((now) => hand!.nudge(index, by, now));
  }
  curves.replaceChildren(...drawn.map(({ root }) => root));
  events.replaceChildren();
  corrections.open(session);
  for (const id of ["stream", "corrections", "events"]) at(id).hidden = false;
  at("stream").dataset.stream = seated.stream;
  setText(title, seated.stream);
  fresh = true;
}

// ---------------------------------------------------------------------------------------------------- taking over

/** Take in hand, or go on so; nothing can be moved before it is known where it is. */
function move(how: (now: number[]) => void): void {
  const now = session?.last?.a;
  if (now === undefined || hand === null || seat === null) return;
  const began = !hand.holds;
  how(now);
  if (began) acted = performance.now() - ACT;
  act();
}

function act(): void {
  if (hand === null || !hand.holds) return;
  const now = performance.now();
  // A browser may call late; what is late is not made up for at a jump.
  if (now - acted < ACT - 1) return;
  seat?.take(hand.step(Math.min(now - acted, 4 * ACT) / 1000));
  acted = now;
  fresh = true;
}

function handBack(): void {
  if (hand === null || !hand.holds) return;
  hand.release();
  seat?.handBack();
  fresh = true;
}

function poll(): void {
  if (pads === 0) return;
  const now = performance.now();
  const passed = Math.min(now - polled, 100) / 1000;
  polled = now;
  for (const pad of navigator.getGamepads()) {
    if (pad === null) continue;
    if (pad.buttons[0]?.pressed) handBack();
    pushed(pad, drawn.length).forEach((share, i) => {
      if (share !== 0) move((from) => hand!.nudge(i, share * FASTEST * passed * 100 * drawn[i]!.lever.step, from));
    });
  }
  requestAnimationFrame(poll);
}

addEventListener("gamepadconnected", () => {
  pads += 1;
  if (pads === 1) poll();
});
addEventListener("gamepaddisconnected", () => {
  pads -= 1;
});
addEventListener("keydown", (event) => {
  const target = event.target as HTMLElement;
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, select, textarea")) return;
  if (event.key === " " && hand?.holds) {
    event.preventDefault();
    handBack();
    return;
  }
  // A chart that has the focus is panned by the same keys.
  const found = target.closest(".timechart") ? null : keyMove(event.key, drawn.length);
  if (found === null) return;
  event.preventDefault();
  const [i, way] = found;
  move((now) => hand!.nudge(i, way * drawn[i]!.lever.step * (event.shiftKey ? 5 : 1), now));
});
back.onclick = handBack;
// Nobody steers what they do not see.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) handBack();
});
setInterval(act, ACT);

// --------------------------------------------------------------------------------------------------------- showing

function note(event: Event): void {
  if (event.kind === "operated" && !event.on && event.reason !== HANDED_BACK) hand?.release();
  quiet.hidden = true;
  const { kind, on, reason, ...details } = event;
  const more = Object.entries(details).map(([name, value]) => `${name.replaceAll("_", " ")} ${String(value)}`);
  const what =
    kind === "operated" ? (on ? "taken over" : "handed back") : on ? kind.replaceAll("_", " ") : `${kind}: over`;
  const text = [what, reason !== HANDED_BACK && reason, ...more].filter(Boolean).join(" · ");
  const time = new Date().toLocaleTimeString("en-GB");
  events.prepend(
    h("li", { class: on ? "on" : "off", "data-kind": kind }, h("time", {}, time), text.replaceAll("_", " ")),
  );
  while (events.childElementCount > MOST_EVENTS) events.lastElementChild!.remove();
  fresh = true;
}

function words(): [text: string, kind: string] {
  const by = session?.last?.by;
  if (hand?.holds) return ["You act", "operator"];
  if (by === "operator") return ["An operator acts", "operator"];
  if (by === "gap") return ["A gap is bridged", "gap"];
  return by === "policy" ? ["The policy acts", "policy"] : ["Waiting for a frame", "waiting"];
}

function draw(): void {
  requestAnimationFrame(draw);
  if (!fresh || session === null) return;
  fresh = false;
  const { frames, seated, skipped } = session;
  const n = Math.round(Number(span.value) * (seated.rate ?? USUAL_RATE));
  for (const curve of drawn) curve.show(n, hand?.aim(curve.index) ?? null);
  who.show(frames, n);
  const [text, kind] = words();
  setText(state, text);
  state.dataset.by = kind;
  back.disabled = !hand?.holds;
  const told = [
    seated.rate ? `${format(seated.rate)} Hz` : null,
    frames.length ? `frame ${format(frames.at(-1)!.n)}` : null,
    skipped ? `${format(skipped)} not shown` : null,
  ];
  setText(facts, told.filter(Boolean).join(" · "));
  corrections.update();
}

span.onchange = () => {
  fresh = true;
};
form.onsubmit = (event) => {
  event.preventDefault();
  void list();
};
addEventListener("resize", () => {
  fresh = true;
});
installTheme(at("theme") as HTMLButtonElement);
getServices().then(
  (found) => {
    known.append(...[USUAL, ...found].map((address) => h("option", { value: address })));
    if (found[0] !== undefined) service.value = found[0];
  },
  (error: Error) => setText(trouble, error.message),
);
draw();
