// The words of the page in both languages, English first.
const Texts = (() => {
  const WHEEL = "mindinsight-2.3.1-py3-none-any.whl";
  const TEXTS = {
    "language": ["中文", "English"], "title": ["Runs: {0}", "训练表：{0}"],
    "run": ["run", "训练"], "written": ["last written", "最近写入"], "status": ["status", "状态"],
    "steps": ["steps", "步数"], "curve": ["loss curve", "损失曲线"],
    "front": ["MindInsight's list", "训练列表（MindInsight）"],
    "lineage": ["model lineage", "模型溯源"], "columns": ["columns", "选择列"],
    "size": ["rows", "每页行数"], "csv": ["CSV of the table", "表格 CSV"],
    "search": ["name, setting, /expression/, accuracy>0.9", "名称、参数、/正则表达式/、accuracy>0.9"],
    "count": ["{0} of {1} runs", "共 {1} 个训练，符合条件 {0} 个"], "page": ["page {0} of {1}", "第 {0} 页，共 {1} 页"],
    "ticked": ["{0} ticked:", "已选 {0} 个："], "untick": ["untick all", "取消全选"],
    "reading": [", {0} being read", "，正在读取 {0} 个"],
    "started": ["started", "开始时间"], "duration": ["duration", "时长"], "pace": ["s per step", "每步秒数"],
    "remark": ["remark", "备注"], "tag_number": ["tag", "标签编号"],
    "last": ["last {0}", "{0} 最后值"], "min": ["least {0}", "{0} 最小值"], "max": ["greatest {0}", "{0} 最大值"],
    "best_step": ["step of the best {0}", "{0} 最佳值的步数"], "add": ["add column", "添加列"],
    "tag": ["scalar tag", "标量标签"], "which": ["value of the scalar", "标量的取值"],
    "group": ["group by", "分组"], "nogroup": ["–", "–"],
    "number": ["runs", "训练数"], "mean": ["mean ± sd of {0}", "{0} 平均值 ± 标准差"],
    "best": ["{0}: least … greatest", "{0}：最小 … 最大"],
    "table": ["table of runs", "训练表"], "curves": ["curves of the ticked runs", "所选训练的曲线"],
    "legend": ["values at the cursor", "光标处的值"],
    "elsewhere": ["other pages", "其他页面"], "pages": ["pages of the table", "表格分页"],
    "invite": ["Tick runs: their curves are drawn here.", "勾选训练后，曲线显示在此处。"],
    "smooth": ["smoothing", "平滑"], "log": ["log scale", "对数坐标"], "all": ["all points", "所有数据点"],
    "axis": ["x axis", "横轴"], "step": ["step", "步数"], "relative": ["seconds", "秒"], "wall": ["time of day", "时刻"],
    "value": ["value", "值"], "smoothed": ["smoothed", "平滑值"],
    "reset": ["reset zoom", "还原缩放"], "png": ["PNG", "PNG"], "plotcsv": ["CSV", "CSV"],
    "diverged_hide": ["diverged: {0}, hide", "已发散：{0} 个，隐藏"], "diverged_show": ["diverged: {0}, show", "已发散：{0} 个，显示"],
    "most": ["The first {0} of {1} ticked runs are drawn.", "所选 {1} 个训练中，绘制前 {0} 个。"],
    "outside": ["Curves that leave the scale (▲ ▼): {0}.", "{0} 条曲线超出坐标范围（▲ ▼）。"],
    "bad_from": ["not finite from step {0} (×)", "自第 {0} 步起非有限值（×）"],
    "plot": [
      "Curves of {0}, {1} runs. Arrow keys move the cursor, + and - zoom, 0 resets.",
      "{0} 的曲线，{1} 个训练。方向键移动光标，+ 和 - 缩放，0 还原。",
    ],
    "empty": ["no ticked run has this tag", "所选训练都没有这个标签"],
    "notag": ["no tag has “{0}” in it", "没有包含“{0}”的标签"],
    "everyrun": ["tick all that are found", "全选符合条件的训练"],
    "compare": ["MindInsight's comparison", "标量对比（MindInsight）"], "difference": ["where they differ", "查看差异起点"],
    "surfaces": ["compare loss landscapes", "损失函数图形对比"],
    "lineages": ["model lineage of these", "所选训练的模型溯源"],
    "toomany": ["Pages about ticked runs take {0} at most.", "关于所选训练的页面最多支持 {0} 个。"],
    "graph": ["graph", "计算图"], "landscape": ["landscape", "损失函数多维分析"],
    "wrong": ["what went wrong", "异常定位"], "copy": ["copy name", "复制名称"], "copied": ["copied", "已复制"],
    "running": ["running", "运行中"], "diverged": ["diverged", "已发散"],
    "none": ["There is no run below this directory yet.", "此目录下还没有训练。"],
    "unknown": ["no run has {0}", "所有训练中都没有字段 {0}"],
    "ambiguous": ["{0} is the end of several names: {1}", "有多个字段以 {0} 结尾：{1}"],
    "comparable": ["{0} is compared with a number", "{0} 只能与数值比较"],
    "expression": ["/{0}/ cannot be searched for: {1}", "无法搜索 /{0}/：{1}"],
    "nowhere": ["no run has “{0}” in its name or settings", "所有训练的名称和参数中都没有“{0}”"],
    "missing": [
      "Only this table is shown, because MindInsight's front end is missing. With a network, start `mindsummary view` "
      + "again: it fetches the front end from pip's index. Without one, run `python -m pip download --no-deps "
      + `mindinsight==2.3.1\` on another machine, copy the file, and start \`mindsummary view RUNS --wheel ${WHEEL}\` once.`,
      "缺少 MindInsight 的前端文件，因此只显示此表。有网络时，请重新启动 `mindsummary view`，它会从 pip 的软件源下载。"
      + "没有网络时，请在另一台机器上运行 `python -m pip download --no-deps mindinsight==2.3.1`，复制得到的文件，"
      + `然后运行一次 \`mindsummary view RUNS --wheel ${WHEEL}\`。`,
    ],
    "failed": ["The server does not answer.", "服务器没有响应。"],
    "previous": ["previous page", "上一页"], "next": ["next page", "下一页"],
    "keys": [
      "Keys: / searches, ↑ and ↓ move between runs, Space ticks one, Enter opens it. Search: word, -word, a*b, "
      + "\"two words\", /ab+c/, name>1, one OR other, written>=2026-01-31. Nothing here changes a run.",
      "快捷键：/ 搜索，↑ ↓ 切换训练，空格选中，Enter 打开。搜索：词、-词、a*b、\"多个词\"、/ab+c/、name>1、甲 OR 乙、"
      + "written>=2026-01-31。本页面不会修改任何训练日志。",
    ],
  };
  // MindInsight's own Chinese names of columns, and states.
  const CHINESE = {
    learning_rate: "学习率", model_size: "模型大小", network: "网络", optimizer: "优化器", loss_function: "损失函数",
    loss: "损失值", epoch: "epoch", batch_size: "batch size", train_dataset_count: "训练样本数量",
    test_dataset_count: "测试样本数量", device_num: "device数目", train_dataset_path: "训练数据集路径",
    test_dataset_path: "测试数据集路径", dataset_mark: "数据处理", running: "运行中", finished: "已完成", failed: "失败",
    interrupted: "已中止", killed: "被终止", pruned: "提前终止",
  };
  let language = 0;

  const t = (key, ...values) => values.reduce((text, value, i) => text.replaceAll(`{${i}}`, value), TEXTS[key][language]);
  const chinese = (text) => (language && Object.hasOwn(CHINESE, text) ? CHINESE[text] : text);
  const setLanguage = (number) => (language = number);
  const isChinese = () => language === 1;
  return { t, chinese, setLanguage, isChinese, CHINESE };
})();
