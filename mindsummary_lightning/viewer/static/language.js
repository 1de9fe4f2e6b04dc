"use strict";
// The setting of MindInsight's pages, made before they load: at the first visit the browser's language decides.
if (!localStorage.getItem("milang")) {
  localStorage.setItem("milang", navigator.language.startsWith("zh") ? "zh-cn" : "en-us");
}
