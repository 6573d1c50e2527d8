// Makes the pages live: a tick that lets htmx ask for news while the page is looked at, a badge with
// their age, alarms for failures, and copying. Reading and writing work without it.
"use strict";

(() => {
  const TICK_MS = 2000;
  // Parts that seldom change ask at so many ticks, and when the viewer is back.
  const SLOW_TICKS = 10;
  const $ = (selector, within = document) => within.querySelector(selector);
  const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

  // --- Contact: how fresh the page is ------------------------------------------------------

  // A request may hang as well as fail: after this time the badge says so.
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
    // A hidden page asks nothing.
    const silent = now - Math.max(heard, looked) > SILENT_MS;
    const lost = Boolean(trouble) || silent;
    badge.classList.toggle("lost", lost);
    document.documentElement.classList.toggle("lost", lost);
    // The next news say again what is so now.
    $$(".well b").forEach((each) => { each.textContent = lost ? "All was well" : each.textContent; });
    badge.textContent = trouble ? `${trouble} ${age} ago, trying on` : silent ? `No answer for ${age}, trying on` : `Live · ${age} ago`;
  }

  // Without words there is contact.
  function contact(words = "") {
    if (Boolean(trouble) !== Boolean(words)) {
      announce(words ? `${words.split(":")[0]}. The page may be old.` : "In contact again.");
    }
    trouble = words;
    heard = trouble ? heard : performance.now();
    tell();
  }

  // Its answers say nothing of the rest of the page, and one that fails is asked for again.
  const isSlow = (element) => Boolean(element?.matches?.('[hx-trigger~="slow"], #bulks'));
  // A preview of what is typed says nothing of a press that failed.
  const isPreview = (element) => Boolean(element?.matches?.('[hx-trigger~="input"]'));
  const isLive = (element) => Boolean(element?.matches?.("[data-live]"));

  let ticks = 0;

  function tick() {
    if (document.hidden) {
      return;
    }
    if (++ticks % SLOW_TICKS === 0) {
      $$('[hx-trigger~="slow"]').forEach((each) => htmx.trigger(each, "slow"));
    }
    $$('[hx-trigger~="live"]').forEach((each) => htmx.trigger(each, "live"));
    tell();
  }

  setInterval(tick, TICK_MS);
  setInterval(tell, 1000);
  document.addEventListener("visibilitychange", () => {
    looked = performance.now();
    ticks = -1;
    tick();
  });

  // --- Failures are announced, keep typed text, and can be repeated --------------------------

  function announce(words) {
    $("#announced").textContent = words;
  }

  const make = (name, properties) => Object.assign(document.createElement(name), properties);

  function alarm(words, again, by) {
    const box = $("#alarm");
    box.replaceChildren();
    // A dialog lies over the page, and nothing beside it can be pressed.
    const over = $("dialog[open]") || document.body;
    if (words && box.parentElement !== over) {
      over.append(box);
    }
    box.by = by;
    if (!words) {
      return;
    }
    box.append(make("span", { textContent: words }));
    for (const [textContent, act] of [["Try again", again], ["Close", () => {}]]) {
      if (act) {
        box.append(make("button", { type: "button", className: "quiet", textContent, onclick: () => { alarm(); act(); } }));
      }
    }
  }

  // In the way it was made: the press of a link, of one of a form's buttons, or a search that goes on
  // by itself.
  function repeat(element, button) {
    if (element.matches('[hx-trigger~="again"]')) {
      htmx.trigger(element, "again");
    } else if (element.matches("form") && !button?.isConnected) {
      element.requestSubmit();
    } else {
      (button || element).click();
    }
  }

  function failed(element, words, by) {
    if (isSlow(element)) {
      return;
    }
    if (isLive(element)) {
      contact(words.startsWith("The store") ? "Store lost" : "Lost contact");
    } else {
      alarm(words, element.isConnected ? () => repeat(element, by.submitter) : null, element);
    }
  }

  document.addEventListener("htmx:error", ({ detail: { ctx } }) => {
    if (ctx && ctx.text === undefined) {
      failed(ctx.sourceElement, "No contact with Postdate: that was not done, or its answer was lost.", ctx.sourceEvent);
    }
  });

  // A press shows at once that it waits; a request by the page itself does not.
  const busy = (is) => (event) => {
    if (event.detail.ctx.sourceEvent.isTrusted) {
      document.documentElement.classList.toggle("busy", is);
    }
  };
  document.addEventListener("htmx:before:request", busy(true));
  document.addEventListener("htmx:finally:request", busy(false));

  // The second of a double press waits for the first, whose answer may have replaced its form.
  document.addEventListener("htmx:before:request", (event) => {
    if (!event.detail.ctx.sourceElement.isConnected) {
      event.preventDefault();
    }
  });

  // An answer that says "not now" does not replace the page.
  document.addEventListener("htmx:after:request", (event) => {
    const { sourceElement: element, sourceEvent, response: { status }, text } = event.detail.ctx;
    if (isSlow(element)) {
      if (status !== 200) {
        event.preventDefault();
      }
    } else if (status >= 500) {
      event.preventDefault();
      const page = new DOMParser().parseFromString(text, "text/html");
      const words = $("[data-sentence]", page)?.textContent.trim();
      failed(element, words || "Postdate could not do that.", sourceEvent);
    } else if (isLive(element)) {
      if (status >= 400) {
        event.preventDefault();
        contact(status === 429 ? "Searches used up: as of" : "Lost contact");
      } else {
        contact();
      }
    } else {
      // Contact alone does not make done what failed; who goes on has read of it.
      if (!isPreview(element) || $("#alarm").by === element) {
        alarm();
      }
      contact();
    }
  });

  // A press that opens a tab or a window is the browser's; htmx 4.0.1 prevents it.
  document.addEventListener("click", (event) => {
    if ((event.ctrlKey || event.metaKey || event.shiftKey) && event.target.closest("a[href]")) {
      event.stopPropagation();
    }
  }, true);

  // --- Copying ----------------------------------------------------------------------------------

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) {
      return;
    }
    const code = $("code", button.closest(".copyable"));
    try {
      // Browsers lend the clipboard to https and to localhost only; elsewhere the text is selected.
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
      announce("Copied");
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Press Ctrl-C";
    }
    setTimeout(() => { button.textContent = "Copy"; announce(""); }, 2000);
  });

  // --- Local time -------------------------------------------------------------------------------

  const local = Intl.DateTimeFormat().resolvedOptions().timeZone;

  // A form that signs in says it, before htmx reads its fields: the first page is in local time.
  document.addEventListener("submit", ({ target }) => {
    const field = $('input[name="zone"]', target);
    if (field && local) {
      field.value = local;
    }
  }, true);

  document.addEventListener("DOMContentLoaded", () => {
    const button = $("button[data-zone]");
    if (button && local && local !== "UTC" && button.dataset.zone !== local) {
      Object.assign(button, { value: local, textContent: `Show local time (${local})`, hidden: false });
    }
    tell();
  });
})();
