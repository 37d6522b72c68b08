#include "backends/cuda/executor.h"

#include <fmt/format.h>

#include "backends/cuda/bound_program.h"
#include "backends/cuda/limits.h"
#include "backends/cuda/loaded_kernel.h"
#include "backends/cuda/stamp_memory.h"
#include "base/error.h"
#include "emit/cuda_file.h"
#include "emit/operand_slots.h"
#include "schedule/owner.h"

namespace stretto {
namespace {

using cuda::check;
using cuda::driver;

KernelOptions kernel_options(const CudaOptions& options) {
    KernelOptions kernel = options.kernel;
    kernel.separate = options.launches != Launches::One;
    if (kernel.separate && kernel.traced) {
        throw UserError("phases that run as kernels of their own keep no times: trace the one kernel");
    }
    return kernel;
}

class CudaExecutor final : public Executor {
public:
    CudaExecutor(const Plan& plan, const Emission& emission, const CudaOptions& options)
        : device_(cuda::use_context()),
          kernel_(compile_kernel(emission, cuda::limits_of(device_).arch, kernel_options(options)),
                  kKernelName),
          program_(plan, emission,
                   {.separate = options.launches != Launches::One,
                    .packed_for = options.packed_weights ? cuda::limits_of(device_).arch : ""}),
          launches_(options.launches),
          counters_(std::max<std::size_t>(plan.events.size(), 1) * abi::kCounterStride * sizeof(abi::U32)),
          meeting_(sizeof(abi::Meeting)),
          error_(sizeof(abi::ErrorBlock)),
          stop_workers_(stop_workers(plan)),
          timeout_ns_(options.timeout_ns),
          workers_(static_cast<unsigned>(plan.workers.size())),
          threads_(static_cast<unsigned>(emission.threads)),
          shared_bytes_(static_cast<unsigned>(emission.shared_bytes)) {
        for (const Event& event : plan.events) events_.push_back(event.name);
        for (const Task& task : plan.graph.tasks) {
            tasks_.push_back(plan.graph.regions[task.region].name);
            regions_.push_back(task.region);
        }
        for (const Region& region : plan.graph.regions.regions) {
            auto& names = operands_.emplace_back();
            for (BufferId buffer : operand_slots(region)) names.push_back(plan.graph.regions[buffer].name);
        }
        if (options.kernel.traced) stamps_.emplace(plan);
        check(driver().function_set_attribute(kernel_.function(),
                                              cuda::FunctionAttribute::MaxDynamicSharedSizeBytes,
                                              static_cast<int>(emission.shared_bytes)),
              "cuFuncSetAttribute");
        check_residency();
        reset();
    }

    void run(const Bindings& bindings, void* stream, const Iterations& iterations) override {
        if (iterations.count < 1) throw UserError("a launch has at least one iteration");
        if (launches_ != Launches::One &&
            (iterations.count > 1 || iterations.stop.valid() || iterations.granted != nullptr)) {
            throw UserError("phases that run as kernels of their own run once in a launch");
        }
        static_cast<void>(cuda::use_context());
        stream_ = static_cast<cuda::Stream>(stream);
        if (!program_.bound_to(bindings)) program_.bind(bindings);
        if (stale_) program_.pack(stream_);
        stale_ = false;
        abi::Launch launch = program_.launch(bindings);
        launch.counters = counters_.as<abi::U32>();
        launch.meeting = meeting_.as<abi::Meeting>();
        launch.error = error_.as<abi::ErrorBlock>();
        launch.timeout_ns = timeout_ns_;
        if (stamps_) launch.trace = stamps_->prepare();
        launch.iterations = iterations.count;
        launch.progress = iterations.progress;
        launch.granted = iterations.granted;
        if (iterations.stop.valid()) {
            launch.stop_worker = stop_worker(stop_workers_, iterations.stop);
            launch.stop = static_cast<const unsigned char*>(bindings[iterations.stop.index()]);
        }
        if (launches_ == Launches::One) {
            launch_together(launch);
        } else {
            launch_kernels(launch);
        }
    }

    [[nodiscard]] std::vector<std::string> warnings() const override { return kernel_.warnings(); }

    void refresh() override { stale_ = true; }

    void synchronize() override {
        static_cast<void>(cuda::use_context());
        check(driver().stream_synchronize(stream_), "cuStreamSynchronize");
        abi::ErrorBlock error{};
        check(driver().copy_to_host(&error, error_.address(), sizeof(error)), "cuMemcpyDtoH");
        if (error.flag == 0) return;
        reset();
        throw RunError(message(error));
    }

    [[nodiscard]] Trace trace() const override { return stamps_ ? stamps_->read() : Executor::trace(); }

private:
    void launch_together(abi::Launch& launch) const {
        void* parameters[] = {&launch};
        check(driver().launch_cooperative(kernel_.function(), workers_, 1, 1, threads_, 1, 1, shared_bytes_,
                                          stream_, parameters),
              "cuLaunchCooperativeKernel");
    }

    void launch_kernels(abi::Launch& launch) const {
        cuda::LaunchAttribute overlap;
        overlap.id = cuda::LaunchAttribute::ProgrammaticStreamSerialization;
        overlap.value = 1;
        cuda::LaunchConfig config{{workers_, 1, 1}, {threads_, 1, 1}, shared_bytes_, stream_, &overlap, 0};
        void* parameters[] = {&launch};
        for (std::size_t kernel = 0; kernel < program_.kernels(); ++kernel) {
            // The first one reads how many kernels have finished, so it waits for all of the launch before.
            config.attribute_count = launches_ == Launches::OverlappedKernels && kernel > 0 ? 1 : 0;
            check(driver().launch(&config, kernel_.function(), parameters, nullptr), "cuLaunchKernelEx");
            launch.workers += workers_;
        }
    }

    void check_residency() const {
        int blocks = 0;
        check(driver().occupancy(&blocks, kernel_.function(), static_cast<int>(threads_), shared_bytes_),
              "cuOccupancyMaxActiveBlocksPerMultiprocessor");
        const int processors = cuda::limits_of(device_).processors;
        const auto resident = static_cast<unsigned>(blocks * processors);
        if (resident < workers_) {
            throw UserError(
                fmt::format("the program has {} workers, but this GPU holds {} at one time ({} "
                            "multiprocessors): compile it for a machine with that many workers",
                            workers_, resident, processors));
        }
    }

    /// Counters and epoch start again, so the words must forget their tags.
    void reset() const {
        program_.clear_arena();
        counters_.clear();
        meeting_.clear();
        error_.clear();
        cuda::finish_copies();
    }

    [[nodiscard]] std::string task_name(abi::U32 task) const {
        return task < tasks_.size() ? fmt::format("#{} {}", task, tasks_[task]) : "the loader";
    }

    [[nodiscard]] std::string message(const abi::ErrorBlock& error) const {
        const double seconds = static_cast<double>(timeout_ns_) * 1e-9;
        if (error.event == abi::kRingEvent) {
            return fmt::format("worker {} gave up after {} s: {} waits for slot {} of its stream",
                               error.worker, seconds, task_name(error.task), error.wanted);
        }
        if (error.event == abi::kIterationEvent) {
            return fmt::format("worker {} gave up after {} s: {} workers have not ended the iteration",
                               error.worker, seconds, error.wanted - error.seen);
        }
        if (error.event == abi::kWordEvent) {
            return fmt::format("worker {} gave up after {} s\n  task   {}\n  waits for a word of '{}'",
                               error.worker, seconds, task_name(error.task),
                               operands_.at(regions_.at(error.task).index()).at(error.seen));
        }
        const std::string event = error.event < events_.size() ? events_[error.event] : "unknown";
        return fmt::format(
            "worker {} gave up after {} s\n  task   {}\n  event  #{} {}: {} signals are missing",
            error.worker, seconds, task_name(error.task), error.event, event, error.wanted - error.seen);
    }

    cuda::Device device_;
    cuda::LoadedKernel kernel_;
    cuda::BoundProgram program_;
    bool stale_ = true;  ///< packed copies are not those of the parameters
    Launches launches_;
    cuda::DeviceMemory counters_;
    cuda::DeviceMemory meeting_;
    cuda::DeviceMemory error_;
    StopWorkers stop_workers_;
    std::uint64_t timeout_ns_;
    unsigned workers_;
    unsigned threads_;
    unsigned shared_bytes_;
    std::vector<std::string> events_;
    std::vector<std::string> tasks_;                  ///< by task: its region
    std::vector<RegionId> regions_;                   ///< by task
    std::vector<std::vector<std::string>> operands_;  ///< by region: buffers by operand slot
    cuda::Stream stream_ = nullptr;                   ///< of the latest launch
    std::optional<cuda::StampMemory> stamps_;         ///< of a traced program
};

}  // namespace

bool cuda_available() { return cuda::available(); }

std::unique_ptr<Executor> make_cuda_executor(const Plan& plan, const Emission& emission,
                                             const CudaOptions& options) {
    return std::make_unique<CudaExecutor>(plan, emission, options);
}

}  // namespace stretto
