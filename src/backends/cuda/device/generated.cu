// A kernel that is generated as a whole.
#include "kernels/prelude.cuh"

#include "generated.cuh"
