// The stand-in accelerator `npu`: PyTorch's PrivateUse1 device, in host memory, that counts what it is asked to do.
//
// Operations run on the CPU and are finished when the call returns. Copies to pinned memory and events go through the
// queue of a stream. In delayed mode a queue runs only when a test says so, or when somebody waits for it; until then
// the destination of a copy is filled with 0xAB. Copies that the CPU fallback makes are not counted.

#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_cpu_dispatch.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>

namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::Stream;

constexpr auto NPU = c10::DeviceType::PrivateUse1;
constexpr int POISON = 0xAB;

std::recursive_mutex mutex;
std::map<std::string, int64_t> counts;
std::set<std::string> missing;  // abilities switched off: pinned, events, float64, bfloat16
int64_t max_allocation = -1;    // bytes; a larger allocation fails
bool delayed = false;
constexpr DeviceIndex device_count = 2;

using Lock = std::lock_guard<std::recursive_mutex>;

void count(const std::string& what, int64_t amount = 1) {
  Lock lock(mutex);
  counts[what] += amount;
}

bool lacks(const std::string& ability) {
  Lock lock(mutex);
  return missing.count(ability) > 0;
}

// ---------------------------------------------------------------------------------------------------------- streams

using Queue = std::deque<std::function<void()>>;
std::map<std::pair<DeviceIndex, c10::StreamId>, Queue> queues;
c10::StreamId last_stream = 0;
thread_local DeviceIndex current_device = 0;
thread_local std::map<DeviceIndex, c10::StreamId> current_streams;

Stream current_stream(DeviceIndex device) {
  return Stream(Stream::UNSAFE, Device(NPU, device), current_streams[device]);
}

void run(Queue& queue, const std::function<bool()>& is_enough) {
  while (!queue.empty() && !is_enough()) {
    auto task = std::move(queue.front());
    queue.pop_front();
    task();
  }
}

void finish(DeviceIndex device, c10::StreamId stream = -1) {
  Lock lock(mutex);
  for (auto& [key, queue] : queues)
    if (key.first == device && (stream < 0 || key.second == stream)) run(queue, [] { return false; });
}

void enqueue(const Stream& stream, std::function<void()> task) {
  Lock lock(mutex);
  auto& queue = queues[{stream.device_index(), stream.id()}];
  queue.push_back(std::move(task));
  if (!delayed) run(queue, [] { return false; });
}

struct Event {
  std::shared_ptr<bool> is_done = std::make_shared<bool>(true);
  DeviceIndex device = 0;
  c10::StreamId stream = 0;
};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return NPU; }
  Device exchangeDevice(Device device) const override {
    auto old = getDevice();
    setDevice(device);
    return old;
  }
  Device getDevice() const override { return Device(NPU, current_device); }
  void setDevice(Device device) const override {
    TORCH_CHECK(device.index() < device_count, "npu has ", int(device_count), " devices, asked for ", device);
    if (device.index() >= 0) current_device = device.index();
  }
  void uncheckedSetDevice(Device device) const noexcept override {
    if (device.index() >= 0) current_device = device.index();
  }
  Stream getStream(Device device) const override { return current_stream(index_of(device)); }
  Stream getDefaultStream(Device device) const override {
    return Stream(Stream::UNSAFE, Device(NPU, index_of(device)), 0);
  }
  Stream getStreamFromGlobalPool(Device device, bool) const override { return getNewStream(device, 0); }
  Stream getNewStream(Device device, int) const override {
    Lock lock(mutex);
    return Stream(Stream::UNSAFE, Device(NPU, index_of(device)), ++last_stream);
  }
  Stream exchangeStream(Stream stream) const override {
    auto old = current_stream(stream.device_index());
    current_streams[stream.device_index()] = stream.id();
    return old;
  }
  DeviceIndex deviceCount() const noexcept override { return device_count; }

  void record(void** event, const Stream& stream, const DeviceIndex, const c10::EventFlag) const override {
    TORCH_CHECK(!lacks("events"), "npu doesn't support events.");
    count("events_recorded");
    if (*event == nullptr) *event = new Event;
    auto is_done = std::make_shared<bool>(false);
    *static_cast<Event*>(*event) = {is_done, stream.device_index(), stream.id()};
    enqueue(stream, [is_done] { *is_done = true; });
  }
  void block(void* event, const Stream& stream) const override {
    count("events_blocking");
    auto waited = *static_cast<Event*>(event);
    enqueue(stream, [waited] { wait_for(waited); });
  }
  bool queryEvent(void* event) const override {
    count("events_queried");
    Lock lock(mutex);
    return event == nullptr || *static_cast<Event*>(event)->is_done;
  }
  void synchronizeEvent(void* event) const override {
    count("events_waited");
    if (event != nullptr) wait_for(*static_cast<Event*>(event));
  }
  void destroyEvent(void* event, const DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  bool queryStream(const Stream& stream) const override {
    Lock lock(mutex);
    return queues[{stream.device_index(), stream.id()}].empty();
  }
  void synchronizeStream(const Stream& stream) const override {
    count("streams_synchronized");
    finish(stream.device_index(), stream.id());
  }
  void synchronizeDevice(const DeviceIndex device) const override {
    count("devices_synchronized");
    finish(device);
  }

 private:
  static DeviceIndex index_of(Device device) { return device.has_index() ? device.index() : current_device; }
  static void wait_for(const Event& event) {
    Lock lock(mutex);
    run(queues[{event.device, event.stream}], [&event] { return *event.is_done; });
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

// ----------------------------------------------------------------------------------------------------------- memory

std::map<const void*, size_t> pinned;
std::map<const void*, DeviceIndex> owners;

struct DeviceAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    Lock lock(mutex);
    TORCH_CHECK_WITH(
        OutOfMemoryError, max_allocation < 0 || int64_t(bytes) <= max_allocation,
        "npu out of memory. Tried to allocate ", bytes, " bytes.");
    void* data = bytes ? c10::alloc_cpu(bytes) : nullptr;
    if (data) owners[data] = current_device;
    return {data, data, &release, Device(NPU, current_device)};
  }
  static void release(void* data) {
    Lock lock(mutex);
    owners.erase(data);
    if (data) c10::free_cpu(data);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    Lock lock(mutex);
    void* data = bytes ? c10::alloc_cpu(bytes) : nullptr;
    if (data) pinned[data] = bytes;
    return {data, data, &release, Device(c10::DeviceType::CPU)};
  }
  static void release(void* data) {
    Lock lock(mutex);
    pinned.erase(data);
    if (data) c10::free_cpu(data);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

DeviceAllocator device_allocator;
PinnedAllocator pinned_allocator;

bool is_pinned(const void* data) {
  Lock lock(mutex);
  auto after = pinned.upper_bound(data);
  if (after == pinned.begin()) return false;
  auto block = std::prev(after);
  return static_cast<const char*>(data) < static_cast<const char*>(block->first) + block->second;
}

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count > 0; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return device_count; }
  void setCurrentDevice(DeviceIndex device) const override { Guard().setDevice(Device(NPU, device)); }
  DeviceIndex getCurrentDevice() const override { return current_device; }
  DeviceIndex exchangeDevice(DeviceIndex device) const override { return maybeExchangeDevice(device); }
  DeviceIndex maybeExchangeDevice(DeviceIndex device) const override {
    return Guard().exchangeDevice(Device(NPU, device)).index();
  }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    TORCH_CHECK(!lacks("pinned"), "npu doesn't support pinned memory.");
    return &pinned_allocator;
  }
  Device getDeviceFromPtr(void* data) const override {
    Lock lock(mutex);
    auto owner = owners.find(data);
    return Device(NPU, owner == owners.end() ? 0 : owner->second);
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    auto data = device_allocator.allocate(bytes);
    if (bytes && storage.nbytes()) std::memcpy(data.get(), storage.data(), std::min(bytes, storage.nbytes()));
    storage.set_data_ptr_noswap(std::move(data));
    storage.set_nbytes(bytes);
  }
};

// ------------------------------------------------------------------------------------------------------- operations

thread_local bool in_fallback = false;

struct InFallback {
  bool before = in_fallback;
  InFallback() { in_fallback = true; }
  ~InFallback() { in_fallback = before; }
};

void check_dtype(c10::ScalarType dtype) {
  TORCH_CHECK_TYPE(dtype != at::kDouble || !lacks("float64"), "npu doesn't support float64.");
  TORCH_CHECK_TYPE(dtype != at::kBFloat16 || !lacks("bfloat16"), "npu doesn't support bfloat16.");
}

at::Tensor host_view(const at::Tensor& tensor) {
  return at::from_blob(
      tensor.data_ptr(), tensor.sizes(), tensor.strides(), at::TensorOptions().dtype(tensor.scalar_type()));
}

at::Tensor empty(
    at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>, std::optional<Device> device,
    std::optional<bool>, std::optional<at::MemoryFormat> format) {
  c10::DeviceGuard guard(c10::device_or_default(device));
  check_dtype(c10::dtype_or_default(dtype));
  return at::detail::empty_generic(
      size, &device_allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(
    at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
    std::optional<Device> device, std::optional<bool>) {
  c10::DeviceGuard guard(c10::device_or_default(device));
  check_dtype(c10::dtype_or_default(dtype));
  return at::detail::empty_strided_generic(
      size, stride, &device_allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::dtype_or_default(dtype));
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool non_blocking) {
  if (self.numel() == 0) return to;
  bool leaves = !self.is_cpu() && to.is_cpu();
  auto source = self.is_cpu() ? self : host_view(self);
  auto target = to.is_cpu() ? to : host_view(to);
  if (in_fallback) {
    target.copy_(source);
  } else if (leaves) {
    count("bytes_to_host", to.nbytes());
    if (non_blocking && is_pinned(to.data_ptr())) {
      count("copies_to_host");
      auto snapshot = source.clone();  // what was queued before this copy has run
      if (delayed) std::memset(target.data_ptr(), POISON, target.nbytes());
      enqueue(current_stream(self.device().index()), [snapshot, target] { target.copy_(snapshot); });
    } else {
      count("blocking_copies_to_host");
      finish(self.device().index(), current_stream(self.device().index()).id());
      target.copy_(source);
    }
  } else {
    if (self.is_cpu()) {
      count(non_blocking && is_pinned(self.data_ptr()) ? "copies_to_device" : "blocking_copies_to_device");
      count("bytes_to_device", self.nbytes());
    }
    target.copy_(source);
  }
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  const_cast<at::Tensor&>(to).resize_(self.sizes());
  return copy_from(self, to, false);
}

at::Scalar read(const at::Tensor& self) {
  count("reads");
  finish(self.device().index(), current_stream(self.device().index()).id());
  return host_view(self).item();
}

at::Tensor& set_storage(
    at::Tensor& self, at::Storage storage, int64_t offset, at::IntArrayRef size, at::IntArrayRef stride) {
  return at::cpu::set_(self, storage, offset, size, stride);
}

at::Tensor& set_whole_storage(at::Tensor& self, at::Storage storage) { return at::cpu::set_(self, storage); }

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  return at::cpu::set_(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor convolution(
    const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
    int64_t groups) {
  InFallback quiet;
  auto host_bias = bias.has_value() && bias->defined() ? std::optional(host_view(*bias)) : std::nullopt;
  return at::convolution(
             host_view(input), host_view(weight), host_bias, stride, padding, dilation, transposed, output_padding,
             groups)
      .to(input.device());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight, at::IntArrayRef stride,
    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding, int64_t groups,
    std::array<bool, 3> mask) {
  InFallback quiet;
  int64_t channels = weight.size(transposed ? 1 : 0) * (transposed ? groups : 1);
  auto [a, b, c] = at::convolution_backward(
      host_view(gradient), host_view(input), host_view(weight), at::IntArrayRef(channels), stride, padding, dilation,
      transposed, output_padding, groups, mask);
  auto back = [&](const at::Tensor& one) { return one.defined() ? one.to(input.device()) : one; };
  return {back(a), back(b), back(c)};
}

// Operations whose result, or its size, the host has to know before it can continue.
const std::set<std::string> READS = {"aten::equal",        "aten::nonzero",   "aten::masked_select", "aten::_unique2",
                                     "aten::unique_dim",   "aten::bincount",  "aten::is_nonzero",
                                     "aten::unique_consecutive"};

void fallback(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  if (!in_fallback && READS.count(operation.schema().name())) count("reads");
  InFallback quiet;
  at::native::cpu_fallback(operation, stack, /*error_on_views=*/true);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", read);
  m.impl("set_.source_Storage", set_whole_storage);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("set_.source_Tensor", set_tensor);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("resize_", at::native::resize_);
  m.impl("convolution_overrideable", convolution);
  m.impl("convolution_backward_overrideable", convolution_backward);
  m.impl("record_stream", [](at::Tensor&, Stream) {});
}

// ------------------------------------------------------------------------------------------------------ collectives

// Collectives of device tensors through another backend, gloo, in the same memory.
struct Collectives final : c10d::Backend {
  explicit Collectives(c10::intrusive_ptr<c10d::Backend> host)
      : c10d::Backend(host->getRank(), host->getSize()), host(std::move(host)) {}

  using Tensors = std::vector<at::Tensor>;
  using Work = c10::intrusive_ptr<c10d::Work>;

  const std::string getBackendName() const override { return "npu_gloo"; }
  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    auto views = host_views(tensors);
    return host->broadcast(views, options);
  }
  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    auto views = host_views(tensors);
    return host->allreduce(views, options);
  }
  Work allgather(std::vector<Tensors>& to, Tensors& from, const c10d::AllgatherOptions& options) override {
    std::vector<Tensors> views;
    for (const auto& tensors : to) views.push_back(host_views(tensors));
    auto own = host_views(from);
    return host->allgather(views, own, options);
  }
  Work barrier(const c10d::BarrierOptions& options) override { return host->barrier(options); }

 private:
  static Tensors host_views(const Tensors& tensors) {
    Tensors views;
    for (const auto& tensor : tensors) views.push_back(tensor.is_cpu() ? tensor : host_view(tensor));
    return views;
  }
  c10::intrusive_ptr<c10d::Backend> host;
};

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  c10::SetAllocator(NPU, &device_allocator);
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  m.def("counts", [] { Lock lock(mutex); return counts; });
  m.def("reset", [] {
    Lock lock(mutex);
    for (DeviceIndex device = 0; device < device_count; ++device) finish(device);
    counts.clear();
    missing.clear();
    max_allocation = -1;
    delayed = false;
  });
  m.def("delay", [](bool on) { delayed = on; });
  m.def("lack", [](const std::string& ability) { Lock lock(mutex); missing.insert(ability); });
  m.def("limit_allocations", [](int64_t bytes) { max_allocation = bytes; });
  m.def("device_count", [] { return int64_t(device_count); });
  m.def("finish", [](int64_t device, int64_t stream) { finish(DeviceIndex(device), stream); });
  m.def("collectives", [](c10::intrusive_ptr<c10d::Backend> host) -> c10::intrusive_ptr<c10d::Backend> {
    return c10::make_intrusive<Collectives>(std::move(host));
  });
}
