// Light and dark: what the system says, unless the reader chose; paper is always light.

type Choice = "auto" | "light" | "dark";
type Listener = (printing: boolean) => void;

const NEXT: Record<Choice, Choice> = { auto: "light", light: "dark", dark: "auto" };
const SIGN: Record<Choice, string> = { auto: "◐ Auto", light: "☀ Light", dark: "☾ Dark" };
const KEY = "simile-theme";
const COLOURS = 10;

export const PAPER = 640; // pixels: how wide a chart is when printed

const listeners = new Set<Listener>();
const known = new Map<string, string>();
let choice: Choice = "auto";
let printing = false;

/** Let a button go through auto, light and dark. The choice is remembered where the browser allows it. */
export function installTheme(button: HTMLButtonElement): void {
  const say = () => {
    button.textContent = SIGN[choice];
    button.setAttribute("aria-label", `Colours: ${choice}. Press for ${NEXT[choice]}.`);
  };
  choice = remembered();
  apply();
  say();
  button.addEventListener("click", () => {
    choice = NEXT[choice];
    remember(choice);
    apply();
    say();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);
  matchMedia("print").addEventListener("change", (event) => print(event.matches));
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
}

/** The colour of the i-th curve: 0 the expert's, 1 the policy's, then others. */
export function colour(i: number): string {
  return variable(`--c${i < COLOURS ? i : 2 + ((i - 2) % (COLOURS - 2))}`);
}

/** The value of a CSS variable, such as "--ink". */
export function variable(name: string): string {
  let value = known.get(name);
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    known.set(name, value);
  }
  return value;
}

/** Call a function whenever colours change, before and after printing too. Returns a function that ends this. */
export function onTheme(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function print(now: boolean): void {
  if (now === printing) return;
  printing = now;
  apply();
}

function apply(): void {
  const shown = printing ? "light" : choice;
  if (shown === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = shown;
  tell();
}

function tell(): void {
  known.clear();
  for (const listener of listeners) listener(printing);
}

// Pages that were opened as files, or in a private window, may be refused a memory.
function remembered(): Choice {
  try {
    const found = localStorage.getItem(KEY);
    return found === "light" || found === "dark" ? found : "auto";
  } catch {
    return "auto";
  }
}

function remember(value: Choice): void {
  try {
    localStorage.setItem(KEY, value);
  } catch {
    // It lasts until the page is closed, then.
  }
}
