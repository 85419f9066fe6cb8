// The kernel of some groups: what groups_text.cpp writes for them, which ends with the kernel itself.
#include "groups/groups.cuh"

#include "generated.cuh"
