// Simulated camera games, for whoever has no data at hand.
import { h } from "../dom";
import { makeGames } from "./api";
import { field, numberInput, select } from "./forms";
import type { Store } from "./store";

export function installGames(root: HTMLElement, store: Store): void {
  const games = numberInput({ min: 1, max: 40, step: 1, value: 8 });
  const minutes = numberInput({ min: 0.5, max: 5, step: 0.5, value: 1 });
  const axes = select([
    ["1", "pan"],
    ["3", "pan, tilt, zoom"],
  ]);
  const sport = select([
    ["basketball", "basketball"],
    ["soccer", "soccer"],
  ]);
  const seed = numberInput({ min: 0, step: 1, value: 0 });
  const make = h("button", { type: "submit" }, "Simulate");
  const form = h(
    "form",
    { class: "grid" },
    field("Games", games),
    field("Minutes of each", minutes),
    field("Camera", axes),
    field("Sport", sport),
    field("Seed", seed),
    make,
  );
  form.onsubmit = async (event) => {
    event.preventDefault();
    make.disabled = true;
    make.textContent = "Simulating …";
    const wish = {
      n_games: games.valueAsNumber,
      minutes: minutes.valueAsNumber,
      axes: Number(axes.value),
      sport: sport.value,
      seed: seed.valueAsNumber,
    };
    const data = await store.attempt(makeGames(wish));
    make.disabled = false;
    make.textContent = "Simulate";
    if (data === null) return;
    details.open = false;
    store.takeData(data);
    store.select({ data: data.id });
  };
  const details = h("details", { class: "games" }, h("summary", {}, "Simulate camera games"), form);
  root.append(details);
}
