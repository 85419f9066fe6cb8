// Samples that Python reads: by the loader's threads, one at a time with the interpreter's lock, or by processes.
#pragma once

#include <condition_variable>
#include <mutex>

#include "bindings.h"

namespace varve::python {

// A process that reads samples: asked for one by its index over a socket, it answers with a status and leaves the
// sample in memory that both see (varve/_workers.py is the other side).
struct Worker {
  int socket = -1;
  std::byte* memory = nullptr;  // x, then y
  std::int64_t process = 0;
  bool free = true;
};

class WorkerPool {
 public:
  // `owner` holds the processes and says in words how one ended; it is told to end them when the pool goes.
  WorkerPool(nb::object owner, std::vector<Worker> workers, std::size_t x_bytes, std::size_t y_bytes);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  bool usable() const;  // in this process, and no worker was lost
  std::size_t size() const { return workers_.size(); }
  void read(std::int64_t index, std::byte* x, std::byte* y);  // called without the interpreter's lock

 private:
  Worker& take();
  void give_back(Worker& worker, bool lost);
  void ask(Worker& worker, std::int64_t index, std::byte* x, std::byte* y);
  void receive(Worker& worker, std::int64_t index, void* to, std::size_t bytes);
  [[noreturn]] void ended(const Worker& worker, std::int64_t index);

  nb::object owner_;
  std::vector<Worker> workers_;
  std::size_t x_bytes_, y_bytes_;
  int process_;  // that began it: a fork's child has the sockets, but they are not its own
  mutable std::mutex guard_;
  std::condition_variable freed_;
  bool lost_ = false;
};

class PythonSource final : public data::Source {
 public:
  // `reader.read(index)` gives the arrays of a sample, contiguous and of these types.
  PythonSource(nb::object reader, std::int64_t size, TensorType x, TensorType y);
  ~PythonSource() override;
  std::int64_t size() const override { return size_; }
  TensorType x() const override { return x_; }
  TensorType y() const override { return y_; }
  void read(std::int64_t index, std::byte* x, std::byte* y) const override;

  const nb::object& reader() const { return reader_; }
  // Null: back to threads. The sample's memory on a worker's side begins with x.
  void use(std::shared_ptr<WorkerPool> pool) const;
  std::shared_ptr<WorkerPool> pool() const;

 private:
  void read_here(std::int64_t index, std::byte* x, std::byte* y) const;

  nb::object reader_;
  std::int64_t size_;
  TensorType x_, y_;
  mutable std::mutex guard_;
  mutable std::shared_ptr<WorkerPool> pool_;  // how samples are read is no part of which they are
};

// Samples of several inputs or targets.
class PythonFields final : public data::FieldSource {
 public:
  // `reader.read(index)` gives the arrays of a sample, inputs and then targets, contiguous and of these types.
  PythonFields(nb::object reader, std::int64_t size, std::vector<Field> inputs, std::vector<Field> targets)
      : reader_(std::move(reader)), size_(size), inputs_(std::move(inputs)), targets_(std::move(targets)) {}
  ~PythonFields() override;
  std::int64_t size() const override { return size_; }
  std::vector<Field> inputs() const override { return inputs_; }
  std::vector<Field> targets() const override { return targets_; }
  void read_fields(std::int64_t index, data::FieldMemory inputs, data::FieldMemory targets) const override;

 private:
  nb::object reader_;
  std::int64_t size_;
  std::vector<Field> inputs_, targets_;
};

void bind_sources(nb::module_& m);

}  // namespace varve::python
