#include "source.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "fields.h"
#include "interrupt.h"

namespace varve::python {
namespace {

constexpr int kPatienceMs = 50;
constexpr std::int64_t kMostMessage = 1 << 20;

}  // namespace

WorkerPool::WorkerPool(nb::object owner, std::vector<Worker> workers, std::size_t x_bytes, std::size_t y_bytes)
    : owner_(std::move(owner)),
      workers_(std::move(workers)),
      x_bytes_(x_bytes),
      y_bytes_(y_bytes),
      process_(static_cast<int>(getpid())) {}

WorkerPool::~WorkerPool() {
  const nb::gil_scoped_acquire lock;
  try {
    if (getpid() == process_) owner_.attr("close")();
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("a pool of worker processes");
  }
  owner_.reset();
}

bool WorkerPool::usable() const {
  const std::lock_guard lock(guard_);
  return !lost_ && getpid() == process_;
}

Worker& WorkerPool::take() {
  std::unique_lock lock(guard_);
  while (true) {
    if (lost_) throw Error("dataset: a worker process was lost, and the samples cannot be read on.");
    for (Worker& worker : workers_)
      if (worker.free) {
        worker.free = false;
        return worker;
      }
    freed_.wait_for(lock, std::chrono::milliseconds(kPatienceMs));
    if (Interruptible::asked()) throw Interrupted("interrupted.");
  }
}

void WorkerPool::give_back(Worker& worker, bool lost) {
  {
    const std::lock_guard lock(guard_);
    worker.free = true;
    lost_ = lost_ || lost;
  }
  freed_.notify_one();
}

void WorkerPool::ended(const Worker& worker, std::int64_t index) {
  std::string how = "has ended";
  {
    const nb::gil_scoped_acquire lock;
    try {
      how = nb::cast<std::string>(owner_.attr("how_ended")(worker.process));
    } catch (const std::exception&) {
      PyErr_Clear();
    }
  }
  throw Error("dataset: worker process " + std::to_string(worker.process) + " " + how + " while it read sample " +
              std::to_string(index) + ".");
}

void WorkerPool::receive(Worker& worker, std::int64_t index, void* to, std::size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    pollfd ready = {worker.socket, POLLIN, 0};
    const int came = poll(&ready, 1, kPatienceMs);
    if (came == 0 || (came < 0 && errno == EINTR)) {
      if (Interruptible::asked()) throw Interrupted("interrupted.");
      continue;
    }
    const ssize_t got = recv(worker.socket, at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) ended(worker, index);
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

void WorkerPool::ask(Worker& worker, std::int64_t index, std::byte* x, std::byte* y) {
  ssize_t sent = 0;
  do sent = send(worker.socket, &index, sizeof index, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent != sizeof index) ended(worker, index);
  std::int64_t message = 0;  // its length; 0: the sample is there
  receive(worker, index, &message, sizeof message);
  if (message < 0 || message > kMostMessage) throw Error("dataset: a worker process answers with nonsense.");
  if (message == 0) {
    std::memcpy(x, worker.memory, x_bytes_);
    std::memcpy(y, worker.memory + x_bytes_, y_bytes_);
    return;
  }
  std::string text(static_cast<std::size_t>(message), ' ');
  receive(worker, index, text.data(), text.size());
  give_back(worker, false);
  throw Error(text);
}

void WorkerPool::read(std::int64_t index, std::byte* x, std::byte* y) {
  Worker& worker = take();
  try {
    ask(worker, index, x, y);
  } catch (...) {
    give_back(worker, !worker.free);  // given back already: it answered, and can be asked again
    throw;
  }
  give_back(worker, false);
}

PythonSource::PythonSource(nb::object reader, std::int64_t size, TensorType x, TensorType y)
    : reader_(std::move(reader)), size_(size), x_(std::move(x)), y_(std::move(y)) {}

PythonSource::~PythonSource() {
  pool_.reset();
  const nb::gil_scoped_acquire lock;
  reader_.reset();
}

void PythonSource::use(std::shared_ptr<WorkerPool> pool) const {
  const std::lock_guard lock(guard_);
  pool_.swap(pool);
}

std::shared_ptr<WorkerPool> PythonSource::pool() const {
  const std::lock_guard lock(guard_);
  return pool_;
}

void PythonSource::read(std::int64_t index, std::byte* x, std::byte* y) const {
  const std::shared_ptr<WorkerPool> workers = pool();
  if (workers && workers->usable())
    workers->read(index, x, y);
  else
    read_here(index, x, y);
}

namespace {

void place(nb::handle value, const TensorType& type, std::byte* to) {
  const auto array = nb::cast<nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>>(value);
  if (array.nbytes() != type.bytes()) throw Error("dataset: a sample's array has another size than it said.");
  std::memcpy(to, array.data(), array.nbytes());
}

// What the reader gives for a sample, with the interpreter's lock held.
template <class Take>
void with_sample(const nb::object& reader, std::int64_t index, const Take& take) {
  const nb::gil_scoped_acquire lock;
  try {
    take(nb::object(reader.attr("read")(index)));
  } catch (nb::python_error& error) {
    if (!Interruptible::ends_work(error)) throw;
    Interruptible::note(std::move(error));
    throw Interrupted("interrupted.");
  }
}

}  // namespace

void PythonSource::read_here(std::int64_t index, std::byte* x, std::byte* y) const {
  with_sample(reader_, index, [&](const nb::object& pair) {
    place(pair[0], x_, x);
    place(pair[1], y_, y);
  });
}

PythonFields::~PythonFields() {
  const nb::gil_scoped_acquire lock;
  reader_.reset();
}

void PythonFields::read_fields(std::int64_t index, data::FieldMemory inputs, data::FieldMemory targets) const {
  with_sample(reader_, index, [&](const nb::object& sample) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) place(sample[i], inputs_[i].type, inputs[i]);
    for (std::size_t i = 0; i < targets_.size(); ++i) place(sample[inputs_.size() + i], targets_[i].type, targets[i]);
  });
}

namespace {

const PythonSource* python_source(const data::Dataset& dataset) {
  return dynamic_cast<const PythonSource*>(&dataset.source());
}

TensorType to_type(nb::handle shape, nb::handle dtype) { return {to_dtype(dtype), to_shape(shape)}; }

}  // namespace

void bind_sources(nb::module_& m) {
  m.def("_dataset_of_reader", [](nb::object reader, std::int64_t size, nb::tuple x, nb::tuple y,
                                 const std::string& name, std::vector<std::string> classes) {
    return data::Dataset(
        std::make_shared<PythonSource>(std::move(reader), size, to_type(x[0], x[1]), to_type(y[0], y[1])),
        {name, std::move(classes), nullptr});
  });
  m.def("_dataset_of_field_reader", [](nb::object reader, std::int64_t size, nb::handle inputs, nb::handle targets,
                                       const std::string& name) {
    return data::Dataset(std::make_shared<PythonFields>(std::move(reader), size, to_fields(inputs), to_fields(targets)),
                         {.name = name});
  });
  m.def("_reader", [](const data::Dataset& dataset) -> nb::object {
    const PythonSource* source = python_source(dataset);
    return source ? source->reader() : nb::none();
  });
  // (how many processes read it, whether they can)
  m.def("_processes", [](const data::Dataset& dataset) {
    const PythonSource* source = python_source(dataset);
    const std::shared_ptr<WorkerPool> pool = source ? source->pool() : nullptr;
    return nb::make_tuple(pool ? pool->size() : 0, pool && pool->usable());
  });
  m.def(
      "_use_processes",
      [](const data::Dataset& dataset, nb::object owner,
         const std::vector<std::tuple<int, std::uintptr_t, std::int64_t>>& started) {
        const PythonSource* source = python_source(dataset);
        if (!source) throw nb::type_error("these samples are read by the library itself");
        std::shared_ptr<WorkerPool> pool;
        if (!owner.is_none()) {
          std::vector<Worker> workers;
          for (const auto& [socket, memory, process] : started)
            workers.push_back({socket, reinterpret_cast<std::byte*>(memory), process, true});
          pool = std::make_shared<WorkerPool>(std::move(owner), std::move(workers), source->x().bytes(),
                                              source->y().bytes());
        }
        unlocked([&] { source->use(std::move(pool)); });
      },
      "dataset"_a, "owner"_a.none(), "started"_a);
}

}  // namespace varve::python
