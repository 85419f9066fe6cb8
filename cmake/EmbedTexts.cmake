# cmake -D output=<file.cpp> -D folder=<folder> -D files=<a;b> -P EmbedTexts.cmake: texts by their path in the folder, as
# C++.
set(body "")
foreach(file IN LISTS files)
  file(RELATIVE_PATH name "${folder}" "${file}")
  file(READ "${file}" text)
  # A string literal has its limits: pieces of whole lines, each a raw string.
  string(LENGTH "${text}" left)
  set(pieces "")
  while(left GREATER 0)
    string(SUBSTRING "${text}" 0 8000 piece)
    string(LENGTH "${piece}" length)
    string(APPEND pieces "\n    R\"varve~(${piece})varve~\"")
    math(EXPR left "${left} - ${length}")
    if(left GREATER 0)
      string(SUBSTRING "${text}" ${length} -1 text)
    endif()
  endwhile()
  string(APPEND body "  {\"${name}\", ${pieces}},\n")
endforeach()
file(WRITE "${output}" "#include \"backends/cuda/device/kernel_texts.h\"

namespace varve::cuda {

std::unordered_map<std::string, std::string> kernel_files() {
  return {
${body}  };
}

}  // namespace varve::cuda
")
