/** The choice of a map: a list, or a field that finds a map by a part of its name if there are many. */
import { element, part } from "./dom.js";
import { text } from "./text.js";

const MOST_LISTED = 20; // Nobody looks through a longer list.

/** @type {string[]} */
let names = [];
let shown = "";

/** @param {string[]} all @param {string} chosen */
export function offerMaps(all, chosen) {
  const isLong = all.length > MOST_LISTED;
  const [list, search] = [part("map-choice"), part("map-search")];
  part("map-field").hidden = all.length === 0;
  list.hidden = isLong;
  search.hidden = !isLong;
  list.replaceChildren(...(isLong ? [] : all.map((name) => new Option(name, name, false, name === chosen))));
  if (isLong && all.join("\n") !== names.join("\n")) {
    part("map-names").replaceChildren(...all.map((name) => element("option", { value: name })));
  }
  [names, shown] = [all, chosen];
  search.placeholder = chosen;
  // A person who writes in the field must not be disturbed.
  if (document.activeElement !== search) search.value = chosen;
}

/** @param {(name: string) => void} choose is called with the name of a map that a person has chosen */
export function listenForChoice(choose) {
  const search = part("map-search");
  const take = (/** @type {string | undefined} */ name) => {
    search.setCustomValidity(name === undefined ? text("mapNoSuch") : "");
    if (name === undefined) {
      search.reportValidity();
      return;
    }
    shown = name;
    search.blur();
    choose(name);
  };
  part("map-choice").addEventListener("change", (/** @type {any} */ event) => choose(event.target.value));
  // Otherwise the browser would offer only maps with names like the present one.
  search.addEventListener("focus", () => { search.value = ""; });
  search.addEventListener("blur", () => {
    search.setCustomValidity("");
    search.value = shown;
  });
  search.addEventListener("input", (/** @type {InputEvent} */ event) => {
    search.setCustomValidity("");
    // Only a choice from the list counts. Typed text may be the beginning of a longer name.
    const isTyped = (event.inputType ?? "insertReplacementText") !== "insertReplacementText";
    if (!isTyped && names.includes(search.value)) take(search.value);
  });
  search.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const words = search.value.trim().toLowerCase();
    if (event.key === "Enter" && words !== "") {
      take(names.find((name) => name === search.value) ?? names.find((name) => name.toLowerCase().includes(words)));
    }
  });
}
