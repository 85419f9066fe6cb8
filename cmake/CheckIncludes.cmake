# Run by ctest: no file of src/ or include/ includes by a relative path that leaves its folder.

file(GLOB_RECURSE files "${root}/src/*.h" "${root}/src/*.cpp" "${root}/src/*.cu" "${root}/include/*.h")
set(found "")
foreach(file IN LISTS files)
  file(STRINGS "${file}" lines REGEX "^[ \t]*#[ \t]*include[ \t]*[\"<](\\.\\./|[^\">]*/\\.\\./)")
  foreach(line IN LISTS lines)
    string(APPEND found "${file}: ${line}\n")
  endforeach()
endforeach()
if(found)
  message(FATAL_ERROR "Include by room (\"ir/graph.h\"), not by a path that climbs out of the folder:\n${found}")
endif()
