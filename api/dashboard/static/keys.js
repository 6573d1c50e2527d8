// Keys of the list: each stands in its help sheet. None works while something is typed.
"use strict";

(() => {
  const $ = (selector, within = document) => within.querySelector(selector);
  const rows = () => [...document.querySelectorAll("#list tr[data-row]")];
  const here = () => document.activeElement.closest("tr[data-row]") || $("#list tr.shown");

  function step(by) {
    const all = rows();
    const at = all.indexOf(here());
    const row = all[at < 0 ? 0 : Math.min(Math.max(at + by, 0), all.length - 1)];
    $("a.opens", row)?.focus();
    row.scrollIntoView({ block: "nearest" });
  }

  const KEYS = {
    j: () => step(1),
    k: () => step(-1),
    x: () => $(".pick", document.activeElement.closest("tr[data-row]") || document.createElement("p"))?.click(),
    "/": () => $("#q").select(),
    "?": () => $("#help").showModal(),
  };

  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input:not([type=checkbox]), select, textarea, dialog");
    const act = typing || event.ctrlKey || event.metaKey || event.altKey ? null : KEYS[event.key];
    if (act && $("#help") && (rows().length || "/?".includes(event.key))) {
      event.preventDefault();
      act();
    }
  });
})();
