#include <cuda/ptx>
#include <cuda/barrier>
#include <cooperative_groups.h>
namespace p=cuda::ptx; namespace cg=cooperative_groups;
__global__ void __cluster_dims__(2,1,1) __launch_bounds__(128,2) k(int*o,const int*in,const void*map){
 __shared__ alignas(128) int s[1024]; __shared__ uint64_t bar; 
 if(threadIdx.x==0){p::mbarrier_init(&bar,1); p::fence_mbarrier_init(p::sem_release,p::scope_cluster);
  p::cp_async_bulk(p::space_cluster,p::space_global,s,in,4096,&bar); p::mbarrier_arrive_expect_tx(p::sem_release,p::scope_cta,p::space_shared,&bar,4096);
  int c[2]={0,1}; p::cp_async_bulk_tensor(p::space_cluster,p::space_global,s,map,c,&bar);
 }
 while(!p::mbarrier_try_wait_parity(&bar,0)); 
 cg::this_cluster().sync(); int*r=cg::this_cluster().map_shared_rank(s,1); o[threadIdx.x]=*r;
 p::fence_proxy_async(); if(threadIdx.x==0){ p::cp_async_bulk(p::space_global,p::space_shared,o,s,512); p::cp_async_bulk_commit_group(); p::cp_async_bulk_wait_group_read(p::n32_t<0>()); 
 int c[2]={0,1}; p::cp_async_bulk_tensor(p::space_global,p::space_shared,map,c,s); p::cp_reduce_async_bulk(p::space_global,p::space_shared,p::op_add,o,s,512);}
 asm volatile("griddepcontrol.wait;"); asm volatile("{.reg .pred p; elect.sync _|p, 0xffffffff; @p st.global.u32 [%0], 5;}"::"l"(o));
 asm volatile("{\n.reg .pred P1;\nLAB_WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n@P1 bra.uni DONE;\nbra.uni LAB_WAIT;\nDONE:\n}"::"r"((unsigned)__cvta_generic_to_shared(&bar)),"r"(0));
 asm volatile("{\n.reg .pred P1;\nLAB_WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n@P1 bra DONE;\nbra LAB_WAIT;\nDONE:\n}"::"r"((unsigned)__cvta_generic_to_shared(&bar)),"r"(0));
 p::barrier_cluster_arrive(); p::barrier_cluster_wait();
}
