// Several tensors as Python has them: a dict of names, a tuple, or one alone.
#pragma once

#include "bindings.h"

namespace varve::python {

bool is_several(nb::handle value);                      // a dict, or a tuple of tensors or arrays
Tensors tensors_of(nb::handle value);                   // any of the three
nb::object tensors_object(const Tensors& all);          // a dict where all have names, a tuple where they have none
nb::list field_list(const std::vector<Field>& fields);  // (name, shape, type)
std::vector<Field> to_fields(nb::handle list);          // of such a list

}  // namespace varve::python
