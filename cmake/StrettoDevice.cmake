# stretto_embed_device(TARGET): compiles the headers that emitted programs include into TARGET, as the table that
# device_headers() returns.
function(stretto_embed_device target)
    file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/device ${CMAKE_SOURCE_DIR}/device/stretto/*.h)
    list(SORT files)
    list(TRANSFORM files PREPEND device/ OUTPUT_VARIABLE paths)
    list(APPEND files abi/abi.h)
    list(APPEND paths abi/abi.h)
    set(rows "")
    foreach(name path IN ZIP_LISTS files paths)
        set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${path})
        file(READ ${CMAKE_SOURCE_DIR}/${path} text)
        string(APPEND rows "    {\"${name}\", R\"device(${text})device\"},\n")
    endforeach()
    set(generated ${CMAKE_BINARY_DIR}/generated/device_headers.cpp)
    file(CONFIGURE OUTPUT ${generated} @ONLY CONTENT [[
#include "backends/cuda/device_headers.h"

namespace stretto {
namespace {

constexpr DeviceHeader kHeaders[] = {
@rows@};

}  // namespace

std::span<const DeviceHeader> device_headers() { return kHeaders; }

}  // namespace stretto
]])
    target_sources(${target} PRIVATE ${generated})
endfunction()
