// What makes the pages live: a tick that lets htmx ask for news while the page is looked at, a badge
// that says how old they are, alarms for what failed, copying, and reading charts. Nothing here is
// needed to read or to write.
"use strict";

(() => {
  const TICK_MS = 2000;
  const $ = (selector, within = document) => within.querySelector(selector);
  const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

  // --- What is morphed in place keeps what its viewer did to it ---------------------------------

  const KEPT = { checked: 'input[type="checkbox"]', open: "details", hidden: "[data-kept]" };
  Idiomorph.defaults.ignoreActiveValue = true;
  Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) => !(KEPT[name] && node.matches(KEPT[name]));
  // What a page keeps to itself, as the readout of a chart, is not emptied by news.
  Idiomorph.defaults.callbacks.beforeNodeMorphed = (node) => !(node.matches && node.matches(".readout"));

  // --- Contact: how fresh what is shown is ------------------------------------------------------

  // An answer that takes longer than this is news by itself: what asks may hang as well as fail.
  const SILENT_MS = 8000;
  let heard = performance.now();
  let looked = heard;
  let trouble = "";

  const span = (ms) => {
    const s = Math.round(ms / 1000);
    return s < 60 ? `${s} s` : s < 3600 ? `${Math.floor(s / 60)} min` : `${Math.floor(s / 3600)} h`;
  };

  function tell() {
    const badge = $("#contact");
    if (!badge || !$("[data-live]")) {
      return;
    }
    const now = performance.now();
    const age = span(now - heard);
    // While nobody looked, nothing was asked.
    const silent = now - Math.max(heard, looked) > SILENT_MS;
    badge.classList.toggle("lost", Boolean(trouble) || silent);
    badge.textContent = trouble ? `${trouble} ${age} ago, trying on` : silent ? `No answer for ${age}, trying on` : `Live · ${age} ago`;
  }

  function lose(words) {
    if (!trouble) {
      announce(`${words}. What is shown may be old.`);
    }
    trouble = words;
    tell();
  }

  function regain() {
    if (trouble) {
      announce("In contact again.");
    }
    trouble = "";
    heard = performance.now();
    tell();
  }

  const isLive = (element) => Boolean(element && element.closest && element.matches("[data-live]"));
  const fault = (xhr) => (xhr.status === 503 ? "Store lost" : "Lost contact");

  function tick() {
    if (document.hidden) {
      return;
    }
    $$('[hx-trigger~="live"]').forEach((each) => htmx.trigger(each, "live"));
    tell();
  }

  setInterval(tick, TICK_MS);
  setInterval(tell, 1000);
  document.addEventListener("visibilitychange", () => {
    looked = performance.now();
    tick();
  });

  // --- What failed says so, keeps what was typed, and can be repeated ---------------------------

  function announce(words) {
    $("#announced").textContent = words;
  }

  function alarm(words, again) {
    const box = $("#alarm");
    box.replaceChildren();
    if (!words) {
      return;
    }
    const text = document.createElement("span");
    text.textContent = words;
    box.append(text);
    for (const [label, act] of [["Try again", again], ["Close", () => alarm()]]) {
      if (act) {
        const button = document.createElement("button");
        button.type = "button";
        button.className = "quiet";
        button.textContent = label;
        button.addEventListener("click", () => { alarm(); act(); });
        box.append(button);
      }
    }
  }

  // What was done, as it was done: the press of a link, of one of a form's buttons, or what goes on
  // by itself, which nobody pressed.
  function repeat(element, cause) {
    const button = cause && cause.submitter;
    if (element.matches('[hx-trigger~="again"]')) {
      htmx.trigger(element, "again");
    } else if (element.matches("form") && !(button && button.isConnected)) {
      element.requestSubmit();
    } else {
      (button || element).click();
    }
  }

  function failed(element, words, request) {
    if (isLive(element)) {
      lose(words.startsWith("The store") ? "Store lost" : "Lost contact");
    } else {
      alarm(words, element.isConnected ? () => repeat(element, request && request.triggeringEvent) : null);
    }
  }

  const unsent = ({ detail }) => failed(detail.elt, "No contact with Postdate: that was not done, or its answer was lost.", detail.requestConfig);
  document.addEventListener("htmx:sendError", unsent);
  document.addEventListener("htmx:timeout", unsent);

  // An answer that says "not now" is not put in the place of what is there.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { xhr, elt, requestConfig } = event.detail;
    const element = (requestConfig && requestConfig.elt) || elt;
    if (xhr.status >= 500) {
      event.detail.shouldSwap = false;
      const page = new DOMParser().parseFromString(xhr.responseText, "text/html");
      const words = $("[data-sentence]", page);
      failed(element, words ? words.textContent.trim() : "Postdate could not do that.", requestConfig);
    } else if (isLive(element)) {
      if (xhr.status >= 400) {
        event.detail.shouldSwap = false;
        lose(fault(xhr));
      } else {
        regain();
      }
    } else if (xhr.status >= 200) {
      // Contact alone does not make done what failed; who goes on has read of it.
      alarm();
      regain();
    }
  });

  // --- Copying ----------------------------------------------------------------------------------

  // Browsers lend the clipboard to https and to localhost only; elsewhere the old way still works.
  async function copy(text) {
    if (navigator.clipboard && isSecureContext) {
      return navigator.clipboard.writeText(text);
    }
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (!done) {
      throw new Error("not copied");
    }
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) {
      return;
    }
    const code = $("code", button.closest(".copyable"));
    const before = button.textContent;
    try {
      await copy(code.textContent);
      button.textContent = "Copied";
      announce("Copied");
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Press Ctrl-C";
    }
    setTimeout(() => { button.textContent = before === "Copied" ? "Copy" : before; announce(""); }, 2000);
  });

  // --- Charts: what a column says, and a stretch that is brushed --------------------------------

  const column = (target) => target.closest && target.closest(".columns > *");
  let brushed = null;

  function read(target) {
    const at = column(target);
    const chart = target.closest && target.closest(".chart");
    const readout = chart && ($(`[data-readout="${chart.dataset.chart}"]`) || $('[data-readout="activity"]'));
    if (readout) {
      readout.textContent = at ? at.dataset.words : "";
    }
  }

  function mark(to) {
    const all = $$("a", brushed.from.parentNode);
    const [a, b] = [all.indexOf(brushed.from), all.indexOf(to)].sort((x, y) => x - y);
    all.forEach((each, i) => each.classList.toggle("brushed", i >= a && i <= b));
    return [all[a], all[b]];
  }

  document.addEventListener("pointerover", (event) => {
    if (event.target.closest && event.target.closest(".chart")) {
      read(event.target);
    }
    const at = column(event.target);
    if (brushed && at && at.parentNode === brushed.from.parentNode) {
      brushed.to = at;
      mark(at);
    }
  });
  document.addEventListener("pointerout", (event) => {
    if (event.target.closest && event.target.closest(".chart") && !brushed) {
      read(event.target.closest(".chart"));
    }
  });
  document.addEventListener("dragstart", (event) => {
    if (column(event.target)) {
      event.preventDefault();
    }
  });
  document.addEventListener("pointerdown", (event) => {
    const at = event.button === 0 && column(event.target);
    if (at && at.dataset.from) {
      brushed = { from: at, to: at };
    }
  });
  document.addEventListener("pointerup", () => {
    if (brushed && brushed.to !== brushed.from) {
      const [first, last] = mark(brushed.to);
      const iso = (ms) => new Date(Number(ms)).toISOString();
      const form = $("#filters");
      const query = new URLSearchParams(form ? new FormData(form) : "");
      ["when", "cursor", "back"].forEach((name) => query.delete(name));
      [...query].forEach(([name, value]) => value || query.delete(name));
      query.set("from", iso(first.dataset.from));
      query.set("to", iso(last.dataset.to));
      location.assign(`/dashboard/requests?${query}`);
    }
    brushed = null;
  });

  // --- Lists: selection, and the keys of the side panel -----------------------------------------

  function count() {
    const boxes = $$(".pick");
    const picked = boxes.filter((each) => each.checked).length;
    const bar = $("#picked");
    if (bar) {
      bar.hidden = picked === 0;
      $$("[data-picked]").forEach((each) => { each.textContent = picked; });
    }
    const all = $("#pick-all");
    if (all) {
      all.checked = picked > 0 && picked === boxes.length;
      all.indeterminate = picked > 0 && picked < boxes.length;
    }
  }

  document.addEventListener("change", (event) => {
    if (event.target.id === "pick-all") {
      $$(".pick").forEach((each) => { each.checked = event.target.checked; });
    }
    count();
    const form = event.target.form;
    if (form && form.matches("[data-at-once]") && event.target.matches("select")) {
      form.requestSubmit();
    }
  });

  function follow(link) {
    if (link) {
      link.click();
    }
  }

  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea, dialog");
    if (event.key === "Escape" && !typing) {
      follow($("#panel [data-close]"));
    } else if (!typing && !event.ctrlKey && !event.metaKey && !event.altKey && (event.key === "j" || event.key === "k")) {
      const links = $$("tr[data-row] a.opens");
      const at = links.findIndex((each) => each.closest("tr").id === `r-${$("#panel article")?.dataset.schedule}`);
      follow(links[event.key === "j" ? at + 1 : Math.max(0, at - 1)]);
    } else if (event.key === "/" && !typing && $("#q")) {
      event.preventDefault();
      $("#q").focus();
    }
  });

  function settle() {
    const shown = $("#panel article")?.dataset.schedule;
    $$("tr[data-row]").forEach((row) => row.classList.toggle("shown", row.id === `r-${shown}`));
    count();
  }

  document.addEventListener("htmx:afterSettle", (event) => {
    settle();
    if (event.target.id === "panel") {
      const heading = $("#panel h2");
      if (heading && !isLive(event.detail.elt)) {
        heading.focus({ preventScroll: true });
      }
      const title = $("#panel article")?.dataset.title;
      if (title) {
        document.title = title;
      }
    }
  });

  // --- Local time -------------------------------------------------------------------------------

  document.addEventListener("DOMContentLoaded", () => {
    const local = Intl.DateTimeFormat().resolvedOptions().timeZone;
    $$("button[data-zone]").forEach((button) => {
      if (local && local !== "UTC" && button.dataset.zone !== local) {
        button.value = local;
        button.textContent = `Show local time (${local})`;
        button.hidden = false;
      }
    });
    tell();
    settle();
  });
})();
