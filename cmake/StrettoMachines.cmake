# stretto_embed_machines(TARGET): compiles machines/*.json into TARGET as the table that builtin_machine reads.
function(stretto_embed_machines target)
    file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/machines/*.json)
    set(rows "")
    foreach(file ${files})
        set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
        get_filename_component(name ${file} NAME_WE)
        file(READ ${file} text)
        string(APPEND rows "    {\"${name}\", R\"json(${text})json\"},\n")
    endforeach()
    set(generated ${CMAKE_BINARY_DIR}/generated/machine_files.cpp)
    file(CONFIGURE OUTPUT ${generated} @ONLY CONTENT [[
#include "base/machine_files.h"

namespace stretto {
namespace {

constexpr MachineFile kFiles[] = {
@rows@};

}  // namespace

std::span<const MachineFile> machine_files() { return kFiles; }

}  // namespace stretto
]])
    target_sources(${target} PRIVATE ${generated})
endfunction()
