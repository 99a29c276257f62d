// Where in a picture the court is: by clicks on its landmarks.
import { Board, type Court } from "./calibrate/board";
import { Picture } from "./calibrate/picture";
import { Plan } from "./calibrate/plan";
import { Source } from "./calibrate/source";
import { h } from "./dom";
import { type Fitted, fitClicks, getCourts } from "./studio/api";
import { installTheme } from "./theme";

const at = (id: string): HTMLElement => document.getElementById(id)!;
const LEAST = 4; // points
const REST = 120; // milliseconds without a change before the server is asked

const board = new Board();
const plan = new Plan(at("plan"), board);
const picture = new Picture(at("picture"), board);
const source = new Source(
  (shown, width, height) => {
    picture.show(shown, width, height);
    board.changed();
  },
  (text) => say(text, true),
);

const sport = h("select", { id: "sport" });
const metres = (id: string): HTMLInputElement => h("input", { type: "number", id, min: "1", step: "any", size: "5" });
const [length, width] = [metres("length"), metres("width")];
const model = h(
  "select",
  { id: "model" },
  h("option", { value: "homography" }, "the ground (4 points)"),
  h("option", { value: "camera" }, "the camera (6 points)"),
);
const zoom = h(
  "select",
  { id: "zoom" },
  ...[0, 1, 2, 4].map((factor) => h("option", { value: factor }, factor ? `${100 * factor} %` : "fit")),
);
const undo = h("button", { type: "button", disabled: "" }, "Undo");
const name = h("input", { type: "text", id: "name", value: "calibration", size: "16" });
const save = h("button", { type: "button", class: "main", disabled: "" }, "Save");
const kept = h("p", { class: "kept", role: "status" });
const status = h("p", { class: "told", role: "status" });
const table = h("tbody");
const list = h(
  "table",
  { hidden: "" },
  h("thead", {}, h("tr", {}, ...["Landmark", "pixels off", "m off", ""].map((title) => h("th", {}, title)))),
  table,
);

let courts: Court[] = [];
let court: Court | null = null; // the one that is clicked on
let fitted: Fitted | null = null;
let asked = 0;
let timer = 0;

const label = (text: string, input: HTMLElement): HTMLElement => h("label", {}, text, input);
at("tools").append(
  h(
    "div",
    { class: "row" },
    source.root,
    label("Court", sport),
    label("Length (m)", length),
    label("Width (m)", width),
  ),
  h("div", { class: "row" }, label("Find", model), label("Zoom", zoom), undo),
  h("div", { class: "row" }, label("Save as", name), save),
  kept,
);
at("told").append(status, list);

function say(text: string, trouble = false): void {
  status.textContent = text;
  status.classList.toggle("trouble", trouble);
}

function wish(): Record<string, unknown> {
  return { court: court?.court, model: model.value, size: picture.size, pairs: board.clicks };
}

/** Ask for a fit once nothing has changed for a moment; only the newest answer counts. */
function askSoon(): void {
  window.clearTimeout(timer);
  asked += 1;
  fitted = null;
  save.disabled = true;
  tell();
  if (picture.size === null || board.clicks.length < LEAST) {
    picture.overlay([], []);
    const first = picture.size === null ? "Open a picture or a video." : "";
    const left = LEAST - board.clicks.length;
    say(first || `${board.chosen ? `Click on the ${board.chosen} in the picture. ` : ""}${left} more to go.`);
    return;
  }
  timer = window.setTimeout(() => void ask(asked), REST);
}

async function ask(turn: number): Promise<void> {
  try {
    const answer = await fitClicks(wish());
    if (turn !== asked) return;
    fitted = answer;
    picture.overlay(
      answer.lines,
      answer.pairs.filter((pair) => !pair.used).map((pair) => pair.name),
    );
    say(answer.text);
    save.disabled = false;
  } catch (error) {
    if (turn !== asked) return;
    picture.overlay([], []);
    say((error as Error).message, true);
  }
  tell();
}

function tell(): void {
  const misses = new Map((fitted?.pairs ?? []).map((pair) => [pair.name, pair]));
  table.replaceChildren(
    ...board.clicks.map(({ name: which }) => {
      const miss = misses.get(which);
      const remove = h("button", { type: "button", class: "quiet", "aria-label": `Remove ${which}` }, "Remove");
      remove.onclick = () => board.remove(which);
      const number = (value: number | null | undefined, digits: number): HTMLElement =>
        h("td", { class: "number" }, value === null || value === undefined ? "–" : value.toFixed(digits));
      const title = miss && !miss.used ? `${which} (left out)` : which;
      return h("tr", {}, h("td", {}, title), number(miss?.pixels, 1), number(miss?.metres, 2), h("td", {}, remove));
    }),
  );
  list.hidden = board.clicks.length === 0;
}

async function keep(): Promise<void> {
  kept.replaceChildren();
  try {
    const answer = await fitClicks({ ...wish(), name: name.value });
    const file = `${name.value}.json`;
    const link = h("a", { href: `api/calibrations/${encodeURIComponent(name.value)}`, download: file }, "download it");
    kept.append(`Saved as ${answer.kept} in the folder of the studio: `, link);
    kept.append(`, and give it to simile camera crop --calibration ${file}.`);
  } catch (error) {
    say((error as Error).message, true);
  }
}

/** Show a court; the landmarks of another sport are others. */
function turnTo(next: Court): void {
  if (court !== null && court.name !== next.name) board.clear();
  court = next;
  length.value = String(next.length);
  width.value = String(next.width);
  plan.show(next, model.value === "camera");
  board.changed();
}

async function resize(): Promise<void> {
  try {
    const [own] = await getCourts(`${sport.value},${length.value},${width.value}`);
    turnTo(own!);
  } catch (error) {
    say((error as Error).message, true);
  }
}

board.listen(() => {
  undo.disabled = !board.canUndo;
  askSoon();
});
sport.onchange = () => turnTo(courts.find((c) => c.name === sport.value)!);
length.onchange = () => void resize();
width.onchange = () => void resize();
model.onchange = () => {
  if (court !== null) turnTo(court);
};
zoom.onchange = () => picture.zoom(Number(zoom.value));
undo.onclick = () => board.undo();
save.onclick = () => void keep();
addEventListener("keydown", (event) => {
  if (event.key !== "z" || !(event.ctrlKey || event.metaKey) || event.target === name) return;
  event.preventDefault();
  board.undo();
});

installTheme(at("theme") as HTMLButtonElement);
getCourts().then(
  (found) => {
    courts = found;
    sport.append(...courts.map((c) => h("option", { value: c.name }, c.name)));
    turnTo(courts[0]!);
  },
  (error: Error) => say(error.message, true),
);
