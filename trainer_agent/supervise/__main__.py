import sys

from trainer_agent.supervise.agent import main

sys.exit(main())
