# stretto_embed(TARGET HEADER TABLE ROW FILES NAMES): compiles text files into TARGET as the table that TABLE() of HEADER
# returns: one ROW {name, text} for each of FILES (relative to the source folder), under the names in the list NAMES.
function(stretto_embed target header table row files names)
    set(rows "")
    foreach(path name IN ZIP_LISTS files names)
        set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${path})
        file(READ ${CMAKE_SOURCE_DIR}/${path} text)
        string(APPEND rows "    {\"${name}\", R\"text(${text})text\"},\n")
    endforeach()
    set(generated ${CMAKE_BINARY_DIR}/generated/${table}.cpp)
    file(CONFIGURE OUTPUT ${generated} @ONLY CONTENT [[
#include "@header@"

namespace stretto {
namespace {

constexpr @row@ kRows[] = {
@rows@};

}  // namespace

std::span<const @row@> @table@() { return kRows; }

}  // namespace stretto
]])
    target_sources(${target} PRIVATE ${generated})
endfunction()

# stretto_embed_machines(TARGET): machines/*.json, by name.
function(stretto_embed_machines target)
    file(GLOB files CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/machines/*.json)
    set(names ${files})
    list(TRANSFORM names REPLACE "machines/(.*)\\.json" "\\1")
    stretto_embed(${target} base/machine_files.h machine_files MachineFile "${files}" "${names}")
endfunction()

# stretto_embed_device(TARGET): the headers that emitted programs include, by the path they include.
function(stretto_embed_device target)
    file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/device/stretto/*.h)
    list(SORT files)
    list(APPEND files abi/abi.h)
    set(names ${files})
    list(TRANSFORM names REPLACE "^device/" "")
    stretto_embed(${target} backends/cuda/device_headers.h device_headers DeviceHeader "${files}" "${names}")
endfunction()
