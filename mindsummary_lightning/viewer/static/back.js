// On every page of MindInsight the way back to the table of runs, and on the dashboard of a run with statistics
// the way to what went wrong in it; in a shadow tree, apart from the page's text and styles.
"use strict";
addEventListener("DOMContentLoaded", () => {
  const isChinese = localStorage.getItem("milang") === "zh-cn";
  const base = location.pathname.replace(/only\/[^/]*\/$/, ""); // also from the pages of chosen runs
  const host = document.createElement("div"), box = document.createElement("nav"), style = document.createElement("style");
  const back = document.createElement("a"), wrong = document.createElement("a");
  back.href = `${base}runs`;
  back.textContent = isChinese ? "← 训练表" : "← table of runs";
  wrong.textContent = isChinese ? "异常定位" : "what went wrong";
  wrong.hidden = true;
  // free in the head of the pages
  style.textContent = "nav { position: absolute; z-index: 2000; left: 420px; top: 24px; font: 14px system-ui, sans-serif }"
    + "a { color: #9fc3ee; margin-right: 18px }";
  box.append(back, wrong);
  host.attachShadow({ mode: "open" }).append(style, box);
  document.body.append(host);

  // The server puts a word joiner behind < and &.
  function runOfDashboard() {
    const query = location.hash.split("training-dashboard?")[1];
    return query ? new URLSearchParams(query).get("id")?.replaceAll("\u2060", "") : null;
  }

  async function look() {
    const id = runOfDashboard();
    wrong.hidden = true;
    if (!id) return;
    const body = JSON.stringify({ train_ids: [id] }), headers = { "Content-Type": "application/json" };
    const answer = await fetch(`${base}v1/mindinsight/run-table/curves`, { method: "POST", body, headers }).catch(() => null);
    const facts = answer?.ok ? Object.values((await answer.json()).curves)[0] : null;
    if (!facts?.has_statistics || id !== runOfDashboard()) return;
    wrong.href = `${base}v1/mindinsight/what-went-wrong?${new URLSearchParams({ train_id: id, language: isChinese ? "zh" : "en" })}`;
    wrong.hidden = false;
  }

  addEventListener("hashchange", look);
  look();
});
