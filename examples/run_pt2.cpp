// Runs a program that PyTorch exported, without Python: run_pt2 model.pt2
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "base/error.h"
#include "runtime/session.h"
#include "runtime/tensors.h"

using namespace stretto;

int main(int argc, char** argv) {
    if (argc != 2) {
        fmt::print(stderr, "usage: run_pt2 model.pt2\n");
        return 1;
    }
    try {
        const Imported model = import_pt2(argv[1]);
        const Machine machine = builtin_machine("cpu");
        const auto program =
            std::make_shared<const Program>(make_program(compile(model.graph, {machine}), model, argv[1]));

        Session session(program, Backend::Cpu);
        for (const std::string& name : program->inputs) {
            const Buffer& buffer = program->plan.graph.regions[buffer_named(program->plan, name)];
            session.set(name, random_tensor(buffer.dtype, buffer.shape, 42));
        }
        session.run();
        for (const std::string& name : program->outputs) {
            const HostTensor output = session.get(name);
            fmt::print("{}: {}[{}]\n", name, stretto::name(output.dtype), fmt::join(output.shape, ","));
        }
    } catch (const Error& error) {
        fmt::print(stderr, "run_pt2: {}\n", error.what());
        return 1;
    }
}
