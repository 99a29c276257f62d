// A stream that is being served: its curves as they come, who acts, what happens; and a lever to take it over.
import { format, h } from "./dom";
import { Corrections } from "./live/corrections";
import { Curve } from "./live/curve";
import { Events, HANDED_BACK } from "./live/events";
import { Grip, Hand, keyMove, Stick } from "./live/hand";
import { Improve } from "./live/improve";
import { Poll } from "./live/poll";
import { type Event, getServices, getStreams, type Place, Seat, type StreamFacts } from "./live/seat";
import { type Seated, type Session, Sessions } from "./live/session";
import { canAct, type Standing, tell } from "./live/standing";
import { Who } from "./live/who";
import { field, select, textInput } from "./studio/forms";
import { setText } from "./studio/keyed";
import { installTheme } from "./theme";

const at = (id: string): HTMLElement => document.getElementById(id)!;
const USUAL = "ws://127.0.0.1:8770";
const AGAIN = 2000; // milliseconds between two looks at the streams, and until a lost one is tried again
const TICK = 40; // milliseconds between two words to the service, and between two looks at how it stands
const FASTEST = 0.5; // of what can be seen, which a gamepad moves in a second at most

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
const sessions = new Sessions();
new Improve(at("improve"), () => sessions.leftOut);
const events = new Events(at("events"));

let place: Place = { service: "", token: "" }; // whose streams are listed: what was asked for, not what is being typed
let chosen: (Place & { stream: string }) | null = null;
let seat: Seat | null = null;
let connected = false;
let ended = false; // the stream, which may begin again: it is not in the list, or an event says so
let heard: number | null = null; // when the latest frame came, in the page's time (ms)
let session: Session | null = null;
let grip: Grip | null = null;
let drawn: Curve[] = [];
let retry = 0;
const sticks = new Map<number, Stick>();
let fresh = false; // whether there is something new to draw
let pads = 0;
let polled = 0;

// ------------------------------------------------------------------------------------------------ choosing a stream

const streamList = new Poll(
  () => getStreams(place),
  (found) => {
    setText(trouble, found.length ? "" : "This service has no streams now; they appear here when clients send frames.");
    trouble.classList.toggle("calm", found.length === 0);
    if (chosen?.service === place.service) ended = !found.some(({ name }) => name === chosen?.stream);
    offer(found);
  },
  (sentence) => {
    trouble.classList.remove("calm");
    setText(trouble, sentence);
    offer([]);
  },
  () => AGAIN, // it is of use until one is chosen, and then for choosing another
);

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
  showChosen();
}

function showChosen(): void {
  const here = chosen?.service === place.service ? chosen.stream : null;
  for (const button of streams.children) {
    button.setAttribute("aria-pressed", String((button as HTMLElement).dataset.name === here));
  }
}

function choose(stream: string): void {
  chosen = { ...place, stream };
  session = null;
  sit();
  showChosen();
}

function sit(): void {
  clearTimeout(retry);
  handBack();
  seat?.leave();
  [connected, ended, heard] = [false, false, null];
  if (chosen === null) return;
  seat = new Seat(chosen, chosen.stream, {
    seated: begin,
    frames: (frames, skipped) => {
      session?.add(frames, skipped);
      [ended, heard, fresh] = [false, performance.now(), true];
    },
    event: note,
    error: (sentence) => {
      handBack();
      note({ kind: "refused", on: true, reason: sentence });
    },
    ended: (sentence) => {
      handBack();
      connected = false;
      note({ kind: "disconnected", on: true, reason: sentence });
      retry = window.setTimeout(sit, AGAIN);
    },
  });
}

/** The service tells what there is to see; what was seen of the stream before stays, where it is the same. */
function begin(seated: Seated): void {
  connected = true;
  grip = new Grip(new Hand(seated.low, seated.high), seat!);
  const before = session;
  session = sessions.open(chosen!.service, seated);
  if (session === before) return;
  const mine = session;
  for (const curve of drawn) curve.destroy();
  drawn = seated.actions.map((_, i) => new Curve(mine, i));
  for (const { index, lever } of drawn) {
    lever.onset = (value) => move((hand, now) => hand.set(index, value, now));
    lever.onnudge = (by, repeated) => move((hand, now) => hand.nudge(index, by, now), repeated);
  }
  curves.replaceChildren(...drawn.map(({ root }) => root));
  events.clear();
  corrections.open(session);
  for (const id of ["stream", "corrections", "events"]) at(id).hidden = false;
  at("stream").dataset.stream = seated.stream;
  setText(title, seated.stream);
  fresh = true;
}

// ---------------------------------------------------------------------------------------------------- taking over

const look = (): Standing => ({
  connected,
  ended,
  heard: heard === null ? null : (performance.now() - heard) / 1000,
  period: session?.period ?? 0,
  holds: grip?.holds ?? false,
  by: session?.last?.by,
});

/**
 * Take in hand, or go on so; nothing can be moved before it is known where it is. What is merely held down since the
 * hand let go takes nothing in hand again.
 */
function move(how: (hand: Hand, now: number[]) => void, held = false): void {
  const now = session?.last?.a;
  if (now === undefined || grip === null || !canAct(look()) || (held && !grip.holds)) return;
  grip.move((hand) => how(hand, now), performance.now());
  fresh = true;
}

function handBack(): void {
  if (!grip?.holds) return;
  grip.handBack();
  for (const { lever } of drawn) lever.drop();
  for (const stick of sticks.values()) stick.rest();
  fresh = true;
}

function poll(): void {
  if (pads === 0) return;
  const now = performance.now();
  const passed = Math.min(now - polled, 100) / 1000;
  polled = now;
  for (const pad of navigator.getGamepads()) {
    if (pad === null) continue;
    const stick = sticks.get(pad.index) ?? new Stick();
    sticks.set(pad.index, stick);
    const { shares, back } = stick.read(pad, drawn.length);
    if (back && grip?.holds) {
      handBack();
      continue;
    }
    shares.forEach((share, i) => {
      const by = share * FASTEST * passed * 100 * drawn[i]!.lever.step;
      if (share !== 0) move((hand, from) => hand.nudge(i, by, from));
    });
  }
  requestAnimationFrame(poll);
}

/** Say what the hand does, and let go where it does nothing any more. */
function tick(): void {
  const standing = look();
  if (standing.holds && !canAct(standing)) handBack();
  if (grip?.act(performance.now())) fresh = true;
  const [text, kind] = tell(look());
  setText(state, text);
  state.dataset.by = kind;
  back.disabled = !grip?.holds;
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
  if (event.key === " " && grip?.holds) {
    event.preventDefault();
    handBack();
    return;
  }
  // A chart that has the focus is panned by the same keys.
  const found = target.closest(".timechart") ? null : keyMove(event.key, drawn.length);
  if (found === null) return;
  event.preventDefault();
  const [i, way] = found;
  const by = way * drawn[i]!.lever.step * (event.shiftKey ? 5 : 1);
  move((hand, now) => hand.nudge(i, by, now), event.repeat);
});
back.onclick = handBack;
// Nobody steers what they do not see.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) handBack();
});
setInterval(tick, TICK);

// --------------------------------------------------------------------------------------------------------- showing

function note(event: Event): void {
  if (event.kind === "operated" && !event.on && event.reason !== HANDED_BACK) handBack();
  if (event.kind === "closed" || event.kind === "expired") ended = true;
  events.add(event);
  fresh = true;
}

function draw(): void {
  requestAnimationFrame(draw);
  if (!fresh || session === null) return;
  fresh = false;
  const { frames, seated, skipped } = session;
  const n = Math.round(Number(span.value) * session.rate);
  for (const curve of drawn) curve.show(n, grip?.aim(curve.index) ?? null);
  who.show(session, n);
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
  place = { service: service.value.trim(), token: token.value };
  if (chosen?.service === place.service) chosen = { ...chosen, ...place }; // the token may be another
  void streamList.start();
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
