// What the page does where scripts run: it follows the server, keeps ages true, and names the cell under the pointer.
// Everything it shows comes escaped from the server; without it the page is the same, and reloads by itself.
"use strict";
(() => {
  const state = document.getElementById("live-state");
  let paused = false;
  let offset = 0; // how far the server's clock is ahead of this one, in seconds

  // --- ages ---------------------------------------------------------------------------------------------------------

  const units = [["d", 86400], ["h", 3600], ["m", 60]];
  const ageText = (seconds) => {
    let left = Math.max(Math.trunc(seconds), 0);
    const parts = [];
    for (const [unit, length] of units) {
      if (left >= length || parts.length) {
        parts.push([Math.trunc(left / length), unit]);
        left %= length;
      }
    }
    parts.push([left, "s"]);
    const shown = parts.slice(0, 2).filter(([count], at) => count || parts.length === 1 || at === 0);
    return shown.map(([count, unit]) => count + unit).join(" ");
  };
  const refreshAges = (root) => {
    const now = Date.now() / 1000 + offset;
    for (const each of root.querySelectorAll("time.ago")) {
      const text = ageText(now - Date.parse(each.dateTime) / 1000);
      if (each.textContent !== text) each.textContent = text;
    }
  };
  const asOf = document.querySelector("footer time");
  if (asOf) offset = Date.parse(asOf.dateTime) / 1000 - Date.now() / 1000;
  const setClock = (at) => {
    offset = at - Date.now() / 1000;
    if (asOf) {
      asOf.dateTime = new Date(at * 1000).toISOString();
      asOf.textContent = asOf.dateTime.slice(11, 19);
    }
  };
  setInterval(() => { if (!paused) refreshAges(document); }, 1000);

  // --- replacing a part of the page -----------------------------------------------------------------------------------

  const isBeingRead = (place) => {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed && place.contains(selection.anchorNode);
  };
  const owed = new Map(); // what came while its place was being read: the newest of each place
  // What is unfolded stays so: it is known by the first link of its row, and by its number there.
  const unfoldedKey = (place) => (details) => {
    const row = details.closest("tr, li");
    const link = row && row.querySelector("a[href]");
    const inside = [...(row && place.contains(row) ? row : place).querySelectorAll("details")];
    return `${inside.indexOf(details)} ${link ? link.getAttribute("href") : ""}`;
  };
  const replace = (place, html) => {
    if (isBeingRead(place)) {
      owed.set(place, html);
      return;
    }
    owed.delete(place);
    const focused = place.contains(document.activeElement) ? document.activeElement : null;
    const focusable = "a, summary, pre[tabindex], div[tabindex]";
    const at = focused ? [...place.querySelectorAll(focusable)].indexOf(focused) : -1;
    const link = focused && focused.getAttribute("href");
    const alike = () => [...place.querySelectorAll(focusable)].filter((each) => link && each.getAttribute("href") === link);
    const nth = alike().indexOf(focused);
    const keyOf = unfoldedKey(place);
    const unfolded = new Set([...place.querySelectorAll("details[open]")].map(keyOf));
    place.innerHTML = html;
    for (const details of place.querySelectorAll("details")) {
      if (unfolded.has(keyOf(details))) details.open = true;
    }
    if (focused) {
      const same = alike();
      const found = same[nth] || same[0] || [...place.querySelectorAll(focusable)][at];
      (found || document.getElementById("main")).focus({ preventScroll: true });
    }
    refreshAges(place);
  };
  document.addEventListener("selectionchange", () => {
    if (!paused) for (const [place, html] of [...owed]) replace(place, html);
  });

  const button = document.createElement("button");
  button.type = "button";
  const say = (text) => { if (state && state.firstChild.data !== text) state.firstChild.data = text; };
  const showState = (text) => {
    if (!state) return;
    if (!state.firstChild) state.append(document.createTextNode(""));
    say(text);
    if (!button.isConnected) state.after(button);
    button.textContent = paused ? "Resume" : "Pause";
    button.setAttribute("aria-pressed", String(paused));
  };

  // --- the overview follows the server --------------------------------------------------------------------------------

  const overview = document.getElementById("overview");
  if (overview && window.EventSource) {
    const heat = document.getElementById("heat");
    const levels = "0123456789aocn";
    let letters = null;
    let source = null;
    let version = overview.dataset.version;

    const draw = (svg) => {
      const [first, count, columns, pitch] = ["first", "count", "columns", "pitch"].map((key) => Number(svg.dataset[key]));
      const side = pitch - (pitch >= 14 ? 2 : 1);
      const square = `h${side}v${side}h-${side}z`;
      const paths = new Map();
      for (let at = 0; at < count; at += 1) {
        const letter = letters[first + at];
        if (!paths.has(letter)) paths.set(letter, []);
        paths.get(letter).push(`M${(at % columns) * pitch} ${Math.trunc(at / columns) * pitch}${square}`);
      }
      const drawn = [...levels].filter((letter) => paths.has(letter)).map((letter) => {
        const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
        path.setAttribute("class", `h${letter}`);
        path.setAttribute("d", paths.get(letter).join(""));
        return path;
      });
      svg.replaceChildren(...drawn);
    };
    const takeLetters = (message) => {
      const blocks = [...heat.querySelectorAll("svg.cells")];
      if (message.letters) {
        letters = [...message.letters];
        blocks.forEach(draw);
      } else if (message.changes && letters) {
        message.changes.forEach(([at, letter]) => { letters[at] = letter; });
        for (const svg of blocks) {
          const first = Number(svg.dataset.first);
          const last = first + Number(svg.dataset.count);
          if (message.changes.some(([at]) => at >= first && at < last)) draw(svg);
        }
      }
    };
    const take = (message) => {
      setClock(message.at);
      version = message.version;
      if (message.cells !== undefined && heat && String(message.cells) !== heat.dataset.cells) {
        location.reload(); // nodes came or went: the cells stand elsewhere
        return;
      }
      for (const [name, html] of Object.entries(message.sections || {})) {
        const place = overview.querySelector(`[data-live="${name}"]`);
        if (place) replace(place, html);
      }
      takeLetters(message);
    };
    const follow = () => {
      const by = encodeURIComponent(overview.dataset.by);
      source = new EventSource(`/ui/events?by=${by}&version=${encodeURIComponent(version)}`);
      source.addEventListener("open", () => showState("live"));
      source.addEventListener("snapshot", (event) => take(JSON.parse(event.data)));
      source.addEventListener("error", () => {
        if (source.readyState === EventSource.CLOSED) { // refused: too many watch, or the login has ended
          showState("not live: too many browsers are connected, or the login has ended");
          setTimeout(() => { if (!paused && !document.hidden) follow(); }, 10000);
        } else {
          showState("connecting …");
        }
      });
    };
    const stop = () => { if (source) { source.close(); source = null; } };
    button.addEventListener("click", () => {
      paused = !paused;
      if (paused) stop(); else follow();
      showState(paused ? "paused" : "connecting …");
    });
    // A page that nobody sees costs the server nothing.
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) stop(); else if (!paused && !source) follow();
    });
    showState("connecting …");
    follow();
  }

  // --- a pod's and a node's page ask again ------------------------------------------------------------------------------

  const stageOf = (place) => {
    const found = place.querySelector("[data-stage]");
    return found ? found.dataset.stage : "";
  };
  const fragment = document.querySelector("[data-fragment]");
  if (fragment) {
    const stage = stageOf(fragment);
    button.addEventListener("click", () => { paused = !paused; showState(paused ? "paused" : "live"); });
    showState("live");
    setInterval(async () => {
      if (paused || document.hidden) return;
      try {
        const answer = await fetch(fragment.dataset.fragment, { cache: "no-store", redirect: "error" });
        if (answer.status === 401 || answer.status === 403) {
          showState("not live: the login has ended");
          return;
        }
        if (answer.status === 404) {
          showState("it is gone: this is how it was");
          return;
        }
        if (!answer.ok) throw new Error(String(answer.status));
        setClock(Date.parse(answer.headers.get("Date")) / 1000);
        const html = await answer.text();
        if (html !== fragment.dataset.last) {
          fragment.dataset.last = html;
          replace(fragment, html);
          // A node, or another pod of the name: what would help, below, is of before.
          if (!owed.has(fragment) && stageOf(fragment) !== stage) location.reload();
        }
        showState("live");
      } catch {
        showState("not live: the server does not answer");
      }
    }, 5000);
  }

  // --- the node under the pointer -----------------------------------------------------------------------------------------

  const cell = document.getElementById("cell");
  const heat = document.getElementById("heat");
  if (cell && heat) {
    let names = null;
    let fetching = null;
    const fetchNames = () => {
      fetching ??= fetch(`/ui/nodes.json?cells=${heat.dataset.cells}`)
        .then((answer) => answer.ok ? answer.json() : Promise.reject(answer.status))
        .then((tree) => { names = tree.names; })
        .catch(() => { fetching = null; }); // the next movement tries again
      return fetching;
    };
    const nameAt = (svg, event) => {
      const box = svg.getBoundingClientRect();
      const scale = Number(svg.getAttribute("width")) / box.width;
      const [first, count, columns, pitch] = ["first", "count", "columns", "pitch"].map((key) => Number(svg.dataset[key]));
      const column = Math.trunc(((event.clientX - box.left) * scale) / pitch);
      const at = Math.trunc(((event.clientY - box.top) * scale) / pitch) * columns + column;
      return column < columns && at < count ? names[first + at] : undefined;
    };
    cell.textContent = cell.dataset.hint;
    for (const svg of heat.querySelectorAll("svg.cells")) {
      svg.classList.add("pointed");
      svg.addEventListener("pointerenter", fetchNames);
      svg.addEventListener("pointermove", (event) => {
        const name = names && nameAt(svg, event);
        cell.textContent = name || cell.dataset.hint;
      });
      svg.addEventListener("click", async (event) => {
        await fetchNames(); // a tap comes before the names do
        const name = names && nameAt(svg, event);
        if (name) location.assign(`/ui/nodes/${encodeURIComponent(name)}`);
      });
    }
  }
})();
