// Kernels of messages between two ranks.
#pragma once

#include "backend/task.h"

namespace varve::backend {

Prepared send_begin(const Task& task);
Prepared send_end(const Task& task);
Prepared recv_begin(const Task& task);
Prepared recv_end(const Task& task);
Prepared exchanged(const Task& task);

}  // namespace varve::backend
