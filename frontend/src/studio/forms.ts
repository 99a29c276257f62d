// Parts of forms.
import { h } from "../dom";

let fields = 0;

/** A control below its label. */
export function field(label: string, control: HTMLElement): HTMLElement {
  fields += 1;
  control.id ||= `field-${fields}`;
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control);
}

export function numberInput(options: {
  min?: number;
  max?: number;
  step?: number | "any";
  value?: number | string;
}): HTMLInputElement {
  const input = h("input", { type: "number", required: "" });
  for (const [name, value] of Object.entries(options)) input.setAttribute(name, String(value));
  return input;
}

export function textInput(placeholder: string): HTMLInputElement {
  return h("input", { type: "text", placeholder, spellcheck: "false", autocomplete: "off" });
}

export function select(options: [value: string, text: string][]): HTMLSelectElement {
  const element = h("select", {});
  element.append(...options.map(([value, text]) => new Option(text, value)));
  return element;
}

/** A button that acts; while it does, it cannot be pressed again. */
export function action(text: string, act: () => Promise<unknown> | undefined, label = text): HTMLButtonElement {
  const button = h("button", { type: "button", "aria-label": label }, text);
  button.onclick = async () => {
    button.disabled = true;
    await act();
    button.disabled = false;
  };
  return button;
}

const DOUBT = 3000; // ms

/** A button for what cannot be undone: it asks once more. */
export function sureAction(text: string, act: () => Promise<unknown>, label: string): HTMLButtonElement {
  const button = h("button", { type: "button", class: "quiet", "aria-label": label }, text);
  let timer = 0;
  const calm = (): void => {
    clearTimeout(timer);
    timer = 0;
    button.textContent = text;
    button.setAttribute("aria-label", label);
    button.classList.remove("danger");
  };
  button.onclick = async () => {
    if (timer === 0) {
      button.textContent = "Sure?";
      button.setAttribute("aria-label", `${label}: press again to confirm`);
      button.classList.add("danger");
      timer = window.setTimeout(calm, DOUBT);
      return;
    }
    calm();
    button.disabled = true;
    await act();
    button.disabled = false;
  };
  return button;
}
