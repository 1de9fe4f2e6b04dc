// On every page of MindInsight the way back to the table of runs; in a shadow tree, apart from the page's text and styles.
"use strict";
addEventListener("DOMContentLoaded", () => {
  const isChinese = localStorage.getItem("milang") === "zh-cn";
  const host = document.createElement("div"), link = document.createElement("a"), style = document.createElement("style");
  link.href = `${location.pathname.replace(/only\/[^/]*\/$/, "")}runs`; // also from the pages of chosen runs
  link.textContent = isChinese ? "← 训练表" : "← table of runs";
  style.textContent = "a { position: absolute; z-index: 2000; left: 420px; top: 24px; color: #9fc3ee; font: 14px system-ui, sans-serif }"; // free in its head
  host.attachShadow({ mode: "open" }).append(style, link);
  document.body.append(host);
});
