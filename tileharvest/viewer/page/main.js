/** Starts the page, and chooses which page, map, language and colours are shown. The time machine does the rest. */
import * as api from "./api.js";
import { announceFailure, element, fill, part, phrase, settled } from "./dom.js";
import { checkedLook } from "./link-faults.js";
import { listenForChoice, offerMaps } from "./map-choice.js";
import { Outline } from "./outline.js";
import { AREAS, HARVESTS, readArea, readHash, unreadIn, writeHash } from "./permalink.js";
import { atUsualHeight, worldToGrid } from "./projection.js";
import { NOTHING, State } from "./state.js";
import { LANGUAGES, chooseLanguage, language, printable, remember, remembered, text, translate } from "./text.js";
import { TimeMachine } from "./time-machine.js";

const LOOK_AGAIN = 15_000; // Milliseconds between looks for new harvests, while the page is seen.
/** Milliseconds for which the page stays hidden until its first data come, so that nothing in it moves later. */
const PATIENCE = 1000;
const THEMES = ["auto", "light", "dark"];
const REMEMBERED_THEME = "tileharvest.theme";

// In a frame of another site's page only the map and the time are shown.
if (new URLSearchParams(location.search).has("embed")) document.documentElement.dataset.embed = "";

const state = new State();
const machine = new TimeMachine(state);
/** @type {import("./link-notice.js").LinkNotice | undefined} undefined until an address names something that is not there */
let notice;
/** @type {api.MapSummary[]} */
let maps = [];
/** The number of addresses that are being shown. Meanwhile no other address is written. */
let routing = 0;
/** The address that was shown or written last. If the browser has another one, that one is about to be shown. */
let address = "";
/** Whether a person has chosen the day on the screen. Then Back leads to it after another day is chosen. */
let dayWasChosen = false;

/** Show the page that an address names, with the present list of maps. @param {string} hash */
async function route(hash) {
  maps = await api.maps();
  // Meanwhile another address may have been asked for.
  if (hash !== address) return;
  const onHarvests = hash === HARVESTS;
  const area = readArea(hash);
  const onAreas = hash === AREAS || area !== null;
  part("to-areas").hidden = !api.hasAreas;
  for (const [id, current] of [
    ["to-map", !onHarvests && !onAreas], ["to-harvests", onHarvests], ["to-areas", onAreas],
  ]) {
    if (current) part(String(id)).setAttribute("aria-current", "page");
    else part(String(id)).removeAttribute("aria-current");
  }
  document.body.dataset.page = onHarvests ? "harvests" : onAreas ? "areas" : "map";
  part("harvests-page").hidden = !onHarvests;
  part("areas-page").hidden = !onAreas;
  part("map-page").hidden = true;
  part("empty").hidden = true;
  if (onHarvests) document.title = text("pageTitleOf", { what: text("harvestsTitle") });
  if (onAreas) document.title = text("pageTitleOf", { what: area?.area ?? text("areasTitle") });
  if (onHarvests) await (await import("./harvests-page.js")).drawHarvests(maps);
  else if (area !== null) await (await import("./areas-page.js")).drawArea(maps, area);
  else if (onAreas) await (await import("./areas-page.js")).drawAreas(maps);
  else await showMap(hash);
}

/** Show the map page, or advice if there is nothing to show. @param {string} hash */
async function showMap(hash) {
  const read = readHash(hash);
  const mayBeLink = hash.length > 1 && Object.keys(read).length === 0 && Object.keys(unreadIn(hash)).length === 0;
  // A link of the map's own page names no map and no day, so those on the screen stay.
  const { map: shownMap, day, other, mode, heat, news } = state.look;
  const harvested = maps.filter((map) => map.days > 0);
  const wantedMap = mayBeLink ? shownMap : read.map;
  const known = maps.find(({ name }) => name === wantedMap);
  if (known === undefined && read.map && maps.length > 0) {
    const { noSuchMap } = await import("./link-notice.js");
    if (hash !== address) return;
    offerMaps(maps.map(({ name }) => name), "");
    showInstead(noSuchMap(read.map, maps.map(({ name }) => name)));
    return;
  }
  const map = known ?? harvested[0] ?? maps[0];
  offerMaps(maps.map(({ name }) => name), map?.name ?? "");
  if (map === undefined || map.days === 0) {
    showEmpty(map);
    return;
  }
  part("map-page").hidden = false;
  const open = machine.outline?.name === map.name ? machine.outline : null;
  const outline = open ?? await Outline.of(map.name);
  if (hash !== address) return;
  const place = mayBeLink ? placeOfLink(hash, outline) : null;
  const { look: wanted, faults } = place !== null
    ? { look: { day, other, mode, heat, news, ...place }, faults: [] }
    : checkedLook(read, unreadIn(hash), outline);
  const look = { ...NOTHING, ...wanted, map: map.name };
  look.layer = outline.layer(look.layer).name;
  if (mayBeLink && place === null) faults.push({ key: "linkUnknown", values: { text: hash }, offers: [] });
  if (faults.length > 0 && notice === undefined) {
    const loaded = await import("./link-notice.js").catch(announceFailure);
    if (loaded) notice ??= new loaded.LinkNotice();
  }
  if (hash !== address) return;
  if (open === null) machine.leave();
  state.set(look);
  offerLayers(outline);
  notice?.show(faults, look);
  if (open === null) {
    machine.open(outline);
    return;
  }
  // A map that was open before has followed the state already. If the link tells in another spelling what was
  // shown before, the state has not changed, and nothing else writes the address.
  machine.showTitle();
  writeAddress();
}

/**
 * @param {string} text an address of the map's own page, or the part of it from `#` on
 * @param {Outline} outline
 * @returns {Partial<import("./state.js").Look> | null} null: it is none
 */
function placeOfLink(text, outline) {
  const renderer = outline.links;
  const link = renderer.parseLink(text);
  if (link === null) return null;
  const layers = outline.layers.map(({ name, descriptions }) => ({ name, world: descriptions.at(-1)?.world ?? null }));
  const layer = renderer.layerOf(link, layers) ?? outline.layer(state.look.layer).name;
  const layout = outline.description(layer, state.look.day ?? outline.lastDay);
  return { layer, ...atUsualHeight(link, layout), zoom: renderer.zoomOf(link, layout) ?? state.look.zoom };
}

/** @param {Outline} outline */
function offerLayers(outline) {
  const chosen = state.look.layer;
  part("layer-choice").replaceChildren(
    ...outline.layers.map(({ name }) => new Option(printable(name), name, false, name === chosen)),
  );
  part("layer-field").hidden = outline.layers.length < 2;
}

/** @param {api.MapSummary | undefined} map a map without a harvest, or undefined if there is no map at all */
function showEmpty(map) {
  const command = map === undefined ? "tileharvest add NAME URL" : `tileharvest harvest ${map.name}`;
  showInstead([
    element("h1", {}, text("emptyTitle")),
    element("p", {}, phrase(text(map === undefined ? "emptyNoMaps" : "emptyNoHarvest"))),
    element("pre", {}, element("code", {}, command)),
    element("p", {}, text("emptyAgain")),
  ]);
}

/** @param {Node[]} content in place of a map */
function showInstead(content) {
  document.title = text("pageTitle");
  part("layer-field").hidden = true;
  fill("empty", content);
  part("empty").hidden = false;
}

/** @param {unknown} error */
function showFailure(error) {
  const message = error instanceof Error ? error.message : String(error);
  if (!(error instanceof api.ApiError)) console.error(error);
  part("map-page").hidden = true;
  part("empty").replaceChildren(
    element("p", { role: "alert" }, text("failed", { message })),
    element("button", { type: "button", onclick: () => go() }, text("tryAgain")),
  );
  part("empty").hidden = false;
}

function writeAddress() {
  if (state.look.map === null) return;
  const hash = writeHash(state.look);
  if (dayWasChosen && hash !== location.hash) history.pushState(null, "", hash);
  else history.replaceState(null, "", hash);
  dayWasChosen = false;
  address = location.hash;
  part("to-map").href = address;
}

async function go() {
  routing += 1;
  const asked = address = location.hash;
  dayWasChosen = false;
  try {
    await route(asked);
  } catch (error) {
    if (asked === address) showFailure(error);
  } finally {
    routing -= 1;
  }
}

/** Look again for the first harvest, for new days, and for the progress of a running harvest. */
async function lookAgain() {
  if (document.hidden) return;
  try {
    if (document.body.dataset.page === "map" && !part("map-page").hidden) await machine.renew();
    else await go();
  } catch (error) {
    // The screen stays as it is. The next look may succeed.
    announceFailure(error);
  }
}

/** @param {string} typed in the field for places */
async function goTo(typed) {
  const field = part("go-to-place");
  const refuse = (/** @type {string} */ words) => {
    field.setCustomValidity(words);
    field.reportValidity();
  };
  const hash = typed.includes("#") ? typed.slice(typed.indexOf("#")) : "";
  const { view } = machine;
  field.setCustomValidity("");
  const place = view && view.placeOf(typed);
  if (place !== null) {
    const { deepest } = view.screen;
    const zoom = state.look.zoom !== null && state.look.zoom < deepest - 2 ? deepest - 1 : state.look.zoom;
    const point = worldToGrid(place, view.description);
    if (await view.shows(point, zoom ?? view.screen.position.zoom)) state.set({ ...place, zoom });
    else refuse(text("goToOutside", { place: view.coordinates.inWords(point) }));
    return;
  }
  const area = await areaNamed(typed);
  if (area !== null) {
    location.hash = writeHash({ ...state.look, layer: area.layer, ...area.place });
    return;
  }
  const linked = view && placeOfLink(typed, view.outline);
  if (linked !== null) {
    location.hash = writeHash({ ...state.look, ...linked });
  } else if (Object.keys(readHash(hash)).length > 0) {
    location.hash = hash;
  } else {
    refuse(text(view?.coordinates.wrong ?? "goToWrong"));
  }
}

/** @param {string} typed @returns {Promise<api.NamedArea | null>} the area of the map that has this name, and a place */
async function areaNamed(typed) {
  const map = maps.find(({ name }) => name === state.look.map);
  if (!map?.areas) return null;
  const wanted = typed.trim().toLowerCase();
  const areas = await api.areas(map.name).catch(() => []);
  return areas.find(({ name, place }) => name.toLowerCase() === wanted && place !== null) ?? null;
}

function showWords() {
  translate(document);
  part("language").replaceChildren(
    ...Object.entries(LANGUAGES).map(([code, name]) => new Option(name, code, false, code === language())),
  );
  showTheme(remembered(REMEMBERED_THEME) ?? "auto");
}

/** @param {string} theme */
function showTheme(theme) {
  document.documentElement.dataset.theme = theme;
  const button = part("theme");
  const words = text("theme", { theme: text({ light: "themeLight", dark: "themeDark" }[theme] ?? "themeAuto") });
  button.setAttribute("aria-label", words);
  button.title = words;
}

function listen() {
  const keepAddress = settled(200, () => {
    if (routing > 0) keepAddress();
    else if (document.body.dataset.page === "map" && location.hash === address) writeAddress();
  });
  state.onChange((changed) => {
    // Days that come by playing were not chosen by a person.
    if (changed.has("day") && routing === 0 && !machine.time.isPlaying) dayWasChosen = true;
    keepAddress();
  });
  // Such as that a part of the page could not be loaded.
  window.addEventListener("unhandledrejection", ({ reason }) => announceFailure(reason));
  window.addEventListener("hashchange", go);
  listenForChoice((name) => {
    location.hash = writeHash({ ...NOTHING, map: name });
  });
  part("layer-choice").addEventListener("change", (/** @type {any} */ event) => {
    state.set({ layer: event.target.value });
  });
  part("skip").addEventListener("click", (/** @type {MouseEvent} */ event) => {
    // The address must stay that of the place.
    event.preventDefault();
    part("time").focus();
  });
  part("go-to").addEventListener("submit", (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    goTo(part("go-to-place").value);
  });
  part("go-to-place").addEventListener("input", () => part("go-to-place").setCustomValidity(""));
  part("language").addEventListener("change", async (/** @type {any} */ event) => {
    await chooseLanguage(event.target.value);
    showWords();
    if (document.body.dataset.page === "harvests" || machine.outline === null || part("map-page").hidden) go();
    else {
      notice?.speak();
      machine.speak();
    }
  });
  part("theme").addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? "auto") + 1) % THEMES.length];
    remember(REMEMBERED_THEME, next);
    showTheme(next);
  });
  setInterval(lookAgain, LOOK_AGAIN);
}

function reveal() {
  document.body.classList.remove("waiting");
}

showWords();
listen();
setTimeout(reveal, PATIENCE);
go().then(reveal);
