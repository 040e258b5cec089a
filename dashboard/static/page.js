// Asks for the page again every few seconds, and exchanges the parts that are marked data-live. A part that has the focus or a selection
// stays as it is. Without this script the pages say the same, and stand still.
"use strict";
(() => {
  const every = 1000 * Number(document.body.dataset.refresh || 0);
  const note = document.getElementById("polling");
  if (!every || !note) return;
  let stopped = false;
  const button = document.createElement("button");
  button.type = "button";
  const text = document.createElement("span");
  note.append(button, " ", text);
  note.hidden = false;
  const tell = (words) => {
    button.textContent = stopped ? "Go on" : "Stand still";
    text.textContent = words;
  };
  const busy = (part) => {
    const chosen = document.getSelection();
    return part.contains(document.activeElement) || (chosen && !chosen.isCollapsed && chosen.intersectsNode && chosen.containsNode(part, true));
  };
  const refresh = async () => {
    if (stopped || document.hidden) return;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin", cache: "no-store", redirect: "error" });
      if (!answer.ok) throw new Error("the server answers " + answer.status);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of document.querySelectorAll("[data-live]")) {
        const now = page.getElementById(part.id);
        if (now && !busy(part)) part.replaceWith(document.adoptNode(now));
      }
      tell("The page follows the store, every " + every / 1000 + " s.");
    } catch (failure) {
      tell("The page stands still: " + failure.message + ".");
    }
  };
  button.addEventListener("click", () => {
    stopped = !stopped;
    tell(stopped ? "The page stands still." : "The page follows the store.");
    refresh();
  });
  tell("The page follows the store, every " + every / 1000 + " s.");
  const again = async () => {
    await refresh();
    setTimeout(again, every);
  };
  setTimeout(again, every);
})();
