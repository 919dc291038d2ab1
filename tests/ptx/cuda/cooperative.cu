#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda/barrier>
#include <cuda/pipeline>
namespace cg=cooperative_groups;
__global__ void k(float*o,const float*a,int n){
 auto b=cg::this_thread_block(); auto w=cg::tiled_partition<32>(b); auto g=cg::this_grid();
 __shared__ float s[256]; __shared__ cuda::barrier<cuda::thread_scope_block> bar;
 if(b.thread_rank()==0) init(&bar,b.size()); b.sync();
 cuda::memcpy_async(b,s,a+blockIdx.x*256,sizeof(s),bar); bar.arrive_and_wait();
 float v=s[threadIdx.x]; v=cg::reduce(w,v,cg::plus<float>());
 auto c=cg::coalesced_threads(); if(v>0) v+=c.shfl(v,0);
 cuda::atomic_ref<float,cuda::thread_scope_device> r(o[0]); r.fetch_add(v);
 cuda::atomic_ref<int,cuda::thread_scope_system> r2(*(int*)(o+1)); r2.compare_exchange_strong(n,5);
 g.sync(); o[threadIdx.x]=v;
}
