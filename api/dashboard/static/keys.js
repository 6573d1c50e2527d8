// Keys of the list: each stands in its help sheet, which switches those of one letter off. None works
// while something is typed.
"use strict";

(() => {
  const $ = (selector, within = document) => within.querySelector(selector);
  const rows = () => [...document.querySelectorAll("#list tr[data-row]")];
  const here = () => document.activeElement.closest("tr[data-row]") || $("#list tr.shown");

  function step(by) {
    const all = rows();
    const at = all.indexOf(here());
    const row = all[at < 0 ? 0 : Math.min(Math.max(at + by, 0), all.length - 1)];
    const link = $("a.opens", row);
    link?.focus();
    row.scrollIntoView({ block: "nearest" });
    // An open panel goes along, and the keys stay in the list.
    if ($("#panel article") && !row.matches(".shown")) {
      link?.click();
    }
  }

  const OFF = "postdate-letters-off";

  function help() {
    $("#letters").checked = !localStorage.getItem(OFF);
    $("#help").showModal();
  }

  const KEYS = {
    j: () => step(1),
    k: () => step(-1),
    x: () => $(".pick", document.activeElement.closest("tr[data-row]") || document.createElement("p"))?.click(),
    b: () => $("#picked:not([hidden]) button:not([hidden])")?.focus(),
    "/": () => $("#q").select(),
    "?": help,
  };

  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input:not([type=checkbox]), select, textarea, dialog");
    const act = typing || event.ctrlKey || event.metaKey || event.altKey || localStorage.getItem(OFF) ? null : KEYS[event.key];
    if (act && $("#help") && (rows().length || "/?".includes(event.key))) {
      event.preventDefault();
      act();
    }
  });
  document.addEventListener("click", (event) => {
    if (event.target.matches("[data-keys]")) {
      help();
    }
  });
  document.addEventListener("change", (event) => {
    if (event.target.id === "letters") {
      localStorage[event.target.checked ? "removeItem" : "setItem"](OFF, "1");
    }
  });
})();
